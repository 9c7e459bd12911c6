// structured.mjs K3: a model of random weights, at temperature 1.5, asked for JSON by every schema of tests/data/schemas.json, once streamed
// and once not. No document that was finished is invalid, and nine in ten are finished within 4,000 tokens. Strict tools' arguments
// likewise. What is not supported, by tests/data/refused_schemas.json, is refused with the keyword's name and its pointer.
import assert from 'node:assert';
import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import Ajv2020 from 'ajv/dist/2020.js';
import addFormats from 'ajv-formats';
import { assemble, post, postStreamed, withServer } from './server.mjs';

const k3 = process.argv[2];
const most = 4000;
const data = (name) => JSON.parse(readFileSync(new URL(`../data/${name}`, import.meta.url), 'utf8'));

function validatorOf(schema) {
  const ajv = new Ajv2020({ strict: false, validateFormats: true });
  addFormats(ajv);
  return ajv.compile(schema);
}

async function ask(server, request, streamed) {
  const url = `${server.url}/v1/chat/completions`;
  if (streamed) return assemble(await postStreamed(url, request));
  const { message, finish_reason } = (await post(url, request)).choices[0];
  return { message, finish_reason };
}

const counts = { finished: 0, cut: 0, calls: 0, refused: 0 };
const wrong = [];

function check(text, schema, what) {
  const validate = validatorOf(schema);
  if (validate(JSON.parse(text))) return;
  wrong.push(`${what}: ${JSON.stringify(schema)}\n  ${text}\n  ${JSON.stringify(validate.errors)}`);
}

const asked = (seed) => ({ messages: [{ role: 'user', content: 'x' }], temperature: 1.5, seed, max_tokens: most });
const format = (schema) => ({ type: 'json_schema', json_schema: { name: 'n', strict: true, schema } });
const tool = (parameters) => ({ type: 'function', function: { name: 'f', strict: true, parameters } });

async function document(server, schema, seed, streamed) {
  const thinking = { thinking: { type: seed % 4 === 0 ? 'enabled' : 'disabled' }, reasoning_budget: 20 };
  const answer = await ask(server, { ...asked(seed), ...thinking, response_format: format(schema) }, streamed);
  if (answer.finish_reason === 'length') {
    counts.cut += 1;
    return;
  }
  assert.strictEqual(answer.finish_reason, 'stop');
  counts.finished += 1;
  check(answer.message.content, schema, `seed ${seed}`);
}

async function call(server, schema, seed, streamed) {
  const calling = { thinking: { type: 'disabled' }, tool_choice: 'required', parallel_tool_calls: false, tools: [tool(schema)] };
  const answer = await ask(server, { ...asked(seed), ...calling }, streamed);
  if (answer.finish_reason === 'length') return;
  assert.strictEqual(answer.finish_reason, 'tool_calls');
  counts.calls += 1;
  check(answer.message.tool_calls[0].function.arguments, schema, `call, seed ${seed}`);
}

async function refusal(server, request, keyword, pointer) {
  const response = await fetch(`${server.url}/v1/chat/completions`, { method: 'POST', body: JSON.stringify({ ...asked(1), ...request }) });
  const { error } = await response.json();
  const what = JSON.stringify(request);
  assert.strictEqual(response.status, 400, what);
  assert.ok(error.message.endsWith(`(at ${pointer})`), `${what}: ${error.message}`);
  assert.ok(error.message.replace(pointer, '').includes(keyword), `${what}: ${error.message}`);
  assert.match(error.param, /schema|tools/);
  counts.refused += 1;
}

async function inTurns(jobs) {
  const worker = async () => {
    for (let job = jobs.shift(); job !== undefined; job = jobs.shift()) await job();
  };
  await Promise.all([1, 2, 3, 4].map(worker));
}

// What ties parameters to each other has no place in a call.
const ties = ['anyOf', 'oneOf', 'minProperties', 'maxProperties', 'patternProperties'];
const folder = mkdtempSync(join(tmpdir(), 'k3-structured-'));
// A request's schema has to be an object: `true` is for other tests.
const schemas = Object.values(data('schemas.json')).flat().filter((schema) => typeof schema === 'object');
assert.ok(new Set(schemas.map((schema) => JSON.stringify(schema))).size === schemas.length && schemas.length >= 200);
try {
  execFileSync(k3, ['synth', join(folder, 'model'), '--tiny', '--layers', '4', '--experts', '8', '--vocab', '2048'], { stdio: 'ignore' });
  const objects = schemas.filter((schema) => schema.type === 'object' && schema.properties !== undefined);
  const free = objects.filter((schema) => !ties.some((keyword) => keyword in schema));
  const each = (what, list, first, streamed) => list.map((schema, i) => (server) => what(server, schema, first + 2 * i + streamed, streamed));
  const both = (what, list, first) => [false, true].flatMap((streamed) => each(what, list, first, streamed));
  await withServer(k3, { model: join(folder, 'model'), args: ['--parallel', '4'] }, async (server) => {
    for (const [keyword, cases] of Object.entries(data('refused_schemas.json'))) {
      for (const [pointer, schema] of cases) await refusal(server, { response_format: format(schema) }, keyword, pointer);
    }
    for (const schema of objects) {
      const tie = Object.keys(schema).find((keyword) => ties.includes(keyword));
      if (tie !== undefined) await refusal(server, { tools: [tool(schema)] }, tie, `/${tie}`);
    }
    await inTurns([...both(document, schemas, 1000), ...both(call, free, 5000)].map((job) => () => job(server)));
  });
} finally {
  rmSync(folder, { recursive: true });
}
console.log(`structured answers: of ${schemas.length} schemas ${counts.finished} documents finished, ${counts.cut} cut at ${most} tokens; `
  + `${counts.calls} calls; ${counts.refused} refusals`);
for (const text of wrong) console.error(text);
assert.strictEqual(wrong.length, 0, 'documents that are not valid');
assert.ok(counts.finished >= 9 * counts.cut && counts.calls >= 40 && counts.refused >= 80);
