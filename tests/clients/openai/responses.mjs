// responses.mjs K3: the Responses half of the npm package `openai` against `k3 serve`: whole responses, streams, its stream helper, a loop of
// function calls, errors; with every way to keep an answer alive.
import assert from 'node:assert';
import OpenAI from 'openai';
import { withServer } from '../server.mjs';

const k3 = process.argv[2];
const question = 'What is the capital of France?';
const add = {
  type: 'function',
  name: 'add',
  description: 'Adds two numbers.',
  strict: false,
  parameters: { type: 'object', properties: { a: { type: 'number' }, b: { type: 'number' } }, required: ['a', 'b'] },
};
const common = { model: 'k3', temperature: 0, store: false };
// Its id and times are an answer's own.
const said = (response) => response.output.map((item) => [item.type, item.name, item.arguments, item.content?.map((part) => part.text)]);

const checks = {
  async 'one response'(client) {
    const response = await client.responses.create({ ...common, input: question });
    assert.match(response.output_text, /Paris/);
    assert.strictEqual(response.status, 'completed');
    assert.deepStrictEqual(response.output.map((item) => item.type), ['reasoning', 'message']);
    assert.ok(response.usage.output_tokens_details.reasoning_tokens > 0);
  },

  async 'raw stream'(client) {
    const whole = await client.responses.create({ ...common, input: question });
    let words = '', thoughts = '', last, next = 0;
    for await (const event of await client.responses.create({ ...common, input: question, stream: true })) {
      assert.strictEqual(event.sequence_number, next++);
      if (event.type === 'response.output_text.delta') words += event.delta;
      if (event.type === 'response.reasoning_text.delta') thoughts += event.delta;
      last = event;
    }
    assert.match(words, /Paris/);
    assert.ok(thoughts.length > 0);
    assert.strictEqual(last.type, 'response.completed');
    assert.deepStrictEqual(said(last.response), said(whole));
  },

  async 'stream helper'(client) {
    const response = await client.responses.stream({ ...common, input: question }).finalResponse();
    assert.match(response.output_text, /Paris/);
  },

  async 'function loop'(client) {
    const asked = [{ role: 'user', content: 'Use the tool: add 16 and 75.' }];
    const body = { ...common, tools: [add], tool_choice: 'required', include: ['reasoning.encrypted_content'] };
    const first = await client.responses.create({ ...body, input: asked });
    const call = first.output.find((item) => item.type === 'function_call');
    assert.strictEqual(call.name, 'add');
    assert.strictEqual(typeof JSON.parse(call.arguments), 'object');
    const streamed = await client.responses.stream({ ...body, input: asked }).finalResponse();
    assert.deepStrictEqual(said(streamed), said(first));
    const result = { type: 'function_call_output', call_id: call.call_id, output: '91' };
    const last = await client.responses.create({ ...common, tools: [add], input: [...asked, ...first.output, result] });
    assert.ok(last.output_text.length > 0);
  },

  async 'cut short'(client) {
    const response = await client.responses.create({ ...common, input: question, max_output_tokens: 3 });
    assert.strictEqual(response.status, 'incomplete');
    assert.strictEqual(response.incomplete_details.reason, 'max_output_tokens');
  },

  async errors(client) {
    await assert.rejects(client.responses.create({ ...common, input: question, previous_response_id: 'resp_1' }), (error) => {
      assert.ok(error instanceof OpenAI.BadRequestError, `${error}`);
      assert.strictEqual(error.param, 'previous_response_id');
      return true;
    });
    await assert.rejects(client.responses.create({ ...common, input: question, background: true }), OpenAI.BadRequestError);
  },
};

const signsOfLife = [
  [],
  ['--nonstream-hold', '0', '--ping-seconds', '0.01'],
  ['--nonstream-hold', '0', '--nonstream-keepalive', '102', '--ping-seconds', '0.01', '--ping-style', 'delta'],
];

let failed = 0;
for (const args of signsOfLife) {
  await withServer(k3, { args }, async (server) => {
    const client = new OpenAI({ baseURL: `${server.url}/v1`, apiKey: 'none', maxRetries: 0 });
    for (const [name, check] of Object.entries(checks)) {
      const what = [name, ...args].join(' ');
      try {
        await check(client);
        console.log(`ok      ${what}`);
      } catch (error) {
        failed++;
        console.log(`FAILED  ${what}: ${error.stack}`);
      }
    }
  });
}
process.exit(failed === 0 ? 0 : 1);
