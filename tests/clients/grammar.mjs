// Documents walked at random through the grammars of many schemas, read by ajv: node grammar.mjs PATH/TO/test_grammar
import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import Ajv2020 from "ajv/dist/2020.js";
import addFormats from "ajv-formats";

const program = process.argv[2];
if (program === undefined) {
  console.error("usage: node grammar.mjs PATH/TO/test_grammar");
  process.exit(2);
}
const folder = mkdtempSync(join(tmpdir(), "k3-grammar-"));
const lines = (() => {
  try {
    const path = join(folder, "documents");
    const env = { ...process.env, K3_GRAMMAR_DOCUMENTS: path };
    execFileSync(program, ["[.documents]"], { env, stdio: ["ignore", "ignore", "inherit"] });
    return readFileSync(path, "utf8").trim().split("\n");
  } finally {
    rmSync(folder, { recursive: true });
  }
})();

const validators = new Map();
function validatorOf(schema) {
  const key = JSON.stringify(schema);
  if (!validators.has(key)) {
    // A fresh one each: schemas may have the same $id.
    const ajv = new Ajv2020({ strict: false, validateFormats: true });
    addFormats(ajv);
    validators.set(key, ajv.compile(schema));
  }
  return validators.get(key);
}

let wrong = 0;
for (const line of lines) {
  const [schema, document] = JSON.parse(line);
  const validate = validatorOf(schema);
  if (validate(JSON.parse(document))) continue;
  wrong += 1;
  if (wrong <= 20) console.error(`${JSON.stringify(schema)}\n  ${document}\n  ${JSON.stringify(validate.errors)}`);
}
console.log(`grammar: ${lines.length} documents of ${validators.size} schemas, ${wrong} not valid`);
process.exit(wrong === 0 && lines.length > 1000 ? 0 : 1);
