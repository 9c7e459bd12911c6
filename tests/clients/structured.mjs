// structured.mjs K3 PATH/TO/test_grammar: a model of random weights, at temperature 1.5, asked for JSON by many schemas, streamed and
// not. No document that was finished is invalid, and nine in ten are finished. Then strict tools' arguments likewise.
import assert from 'node:assert';
import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import Ajv2020 from 'ajv/dist/2020.js';
import addFormats from 'ajv-formats';
import { assemble, post, postStreamed, withServer } from './server.mjs';

const [k3, testGrammar] = process.argv.slice(2);
const most = 4000;
const folder = mkdtempSync(join(tmpdir(), 'k3-structured-'));

function schemas() {
  const path = join(folder, 'documents');
  const env = { ...process.env, K3_GRAMMAR_DOCUMENTS: path };
  execFileSync(testGrammar, ['[.documents]'], { env, stdio: ['ignore', 'ignore', 'inherit'] });
  const lines = readFileSync(path, 'utf8').trim().split('\n').map((line) => JSON.stringify(JSON.parse(line)[0]));
  return [...new Set(lines)].map((line) => JSON.parse(line)).filter((schema) => typeof schema === 'object');
}

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

const counts = { finished: 0, cut: 0, calls: 0 };

function check(text, schema, what) {
  const validate = validatorOf(schema);
  assert.ok(validate(JSON.parse(text)), `${what}: ${JSON.stringify(schema)}\n  ${text}\n  ${JSON.stringify(validate.errors)}`);
}

async function document(server, schema, seed) {
  const request = {
    messages: [{ role: 'user', content: 'x' }], temperature: 1.5, seed, max_tokens: most,
    thinking: { type: seed % 3 === 0 ? 'enabled' : 'disabled' }, reasoning_budget: 20,
    response_format: { type: 'json_schema', json_schema: { name: 'n', strict: true, schema } },
  };
  const answer = await ask(server, request, seed % 2 === 0);
  if (answer.finish_reason === 'length') {
    counts.cut += 1;
    return;
  }
  assert.strictEqual(answer.finish_reason, 'stop');
  counts.finished += 1;
  check(answer.message.content, schema, `seed ${seed}`);
}

async function call(server, schema, seed) {
  const request = {
    messages: [{ role: 'user', content: 'x' }], temperature: 1.5, seed, max_tokens: most, thinking: { type: 'disabled' },
    tool_choice: 'required', parallel_tool_calls: false,
    tools: [{ type: 'function', function: { name: 'f', strict: true, parameters: schema } }],
  };
  const answer = await ask(server, request, seed % 2 === 0);
  if (answer.finish_reason === 'length') return;
  assert.strictEqual(answer.finish_reason, 'tool_calls');
  counts.calls += 1;
  check(answer.message.tool_calls[0].function.arguments, schema, `call, seed ${seed}`);
}

async function inTurns(jobs) {
  const worker = async () => {
    for (let job = jobs.shift(); job !== undefined; job = jobs.shift()) await job();
  };
  await Promise.all([1, 2, 3, 4].map(worker));
}

try {
  execFileSync(k3, ['synth', join(folder, 'model'), '--tiny', '--layers', '4', '--experts', '8', '--vocab', '2048'], { stdio: 'ignore' });
  const all = schemas();
  const objects = all.filter((schema) => schema.type === 'object' && schema.properties !== undefined
    && !['anyOf', 'oneOf', 'allOf', 'minProperties', 'maxProperties', 'patternProperties'].some((keyword) => keyword in schema));
  await withServer(k3, { model: join(folder, 'model'), args: ['--parallel', '4'] }, async (server) => {
    await inTurns([1, 2, 3].flatMap((round) => all.map((schema, i) => () => document(server, schema, 1000 * round + i))));
    await inTurns([1, 2, 3].flatMap((round) => objects.map((schema, i) => () => call(server, schema, 1000 * round + i))));
  });
} finally {
  rmSync(folder, { recursive: true });
}
console.log(`structured answers: ${counts.finished} documents valid, ${counts.cut} cut at ${most} tokens, ${counts.calls} calls valid`);
assert.ok(counts.finished + counts.cut >= 200 && counts.finished >= 9 * counts.cut && counts.calls >= 10);
