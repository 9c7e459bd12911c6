// ai-sdk.mjs K3: the npm package `@ai-sdk/openai-compatible`, whose chunks are checked against schemas: streamed and not, tools, errors, an
// aborted request; with comments and with empty deltas as signs of life.
import assert from 'node:assert';
import { createOpenAICompatible } from '@ai-sdk/openai-compatible';
import { waitFor, withServer } from '../server.mjs';

const k3 = process.argv[2];
const prompt = (text) => [{ role: 'user', content: [{ type: 'text', text }] }];
const question = prompt('What is the capital of France?');

// The parts of a stream, summed up by type; text and reasoning joined, the last finish kept.
async function collect({ stream }) {
  const seen = { text: '', reasoning: '', finishes: [], errors: [], calls: [] };
  const reader = stream.getReader();
  for (let next = await reader.read(); !next.done; next = await reader.read()) {
    const part = next.value;
    if (part.type === 'text-delta') seen.text += part.delta;
    if (part.type === 'reasoning-delta') seen.reasoning += part.delta;
    if (part.type === 'tool-call') seen.calls.push(part);
    if (part.type === 'finish') seen.finishes.push(part);
    if (part.type === 'error') seen.errors.push(part.error);
  }
  return seen;
}

const checks = {
  async 'one answer'(model) {
    const answer = await model.doGenerate({ prompt: question, temperature: 0 });
    assert.match(answer.content.find((part) => part.type === 'text').text, /Paris/);
    assert.match(answer.content.find((part) => part.type === 'reasoning').text, /Paris/);
    const { inputTokens, outputTokens } = answer.usage;
    assert.ok(inputTokens.total > 0 && outputTokens.text > 0 && outputTokens.reasoning > 0);
  },

  async 'a stream'(model) {
    const whole = await model.doGenerate({ prompt: question, temperature: 0 });
    const seen = await collect(await model.doStream({ prompt: question, temperature: 0 }));
    assert.deepStrictEqual(seen.errors, []);
    assert.strictEqual(seen.text, whole.content.find((part) => part.type === 'text').text);
    assert.strictEqual(seen.reasoning, whole.content.find((part) => part.type === 'reasoning').text);
    assert.strictEqual(seen.finishes.length, 1);
    assert.deepStrictEqual(seen.finishes[0].usage.outputTokens, whole.usage.outputTokens);
  },

  async 'tools'(model) {
    const inputSchema = { type: 'object', properties: { a: { type: 'number' }, b: { type: 'number' } }, required: ['a', 'b'] };
    const tools = [{ type: 'function', name: 'add', description: 'Adds two numbers.', inputSchema }];
    const seen = await collect(await model.doStream({ prompt: prompt('Use the tool to add 48 and 75.'), tools, temperature: 0 }));
    assert.deepStrictEqual(seen.errors, []);
    // Whether the small model calls it is its own affair; if it does, the call is whole.
    for (const call of seen.calls) assert.strictEqual(typeof JSON.parse(call.input), 'object');
  },

  async 'an error has our message'(model) {
    await assert.rejects(model.doGenerate({ prompt: question, temperature: 9 }), (error) => {
      assert.strictEqual(error.statusCode, 400);
      assert.match(error.message, /temperature/);
      assert.strictEqual(error.isRetryable, false);
      return true;
    });
  },

  async 'an aborted stream stops the work'(model, server) {
    const abort = new AbortController();
    const { stream } = await model.doStream({ prompt: prompt('Count from one to a thousand.'), temperature: 0, abortSignal: abort.signal });
    const reader = stream.getReader();
    await reader.read();
    abort.abort();
    await assert.rejects(async () => { while (!(await reader.read()).done); });
    await waitFor('the slot to be free', async () => (await (await fetch(`${server.url}/slots`)).json()).length === 0);
  },
};

for (const args of [[], ['--ping-style', 'delta', '--ping-seconds', '0.05']]) {
  await withServer(k3, { args }, async (server) => {
    const provider = createOpenAICompatible({ name: 'k3', baseURL: `${server.url}/v1`, includeUsage: true });
    const model = provider.chatModel('k3-mini');
    for (const [name, check] of Object.entries(checks)) {
      await check(model, server);
      console.log(`ok      ${name}${args.length ? ` (${args.join(' ')})` : ''}`);
    }
  });
}
