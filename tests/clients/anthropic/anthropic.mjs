// anthropic.mjs K3: the npm package `@anthropic-ai/sdk` against `k3 serve`: whole messages, streams, its stream helper, a tool loop, counting,
// errors; with every way to keep an answer alive.
import assert from 'node:assert';
import Anthropic from '@anthropic-ai/sdk';
import { withServer } from '../server.mjs';

const k3 = process.argv[2];
const question = [{ role: 'user', content: 'What is the capital of France?' }];
const add = {
  name: 'add',
  description: 'Adds two numbers.',
  input_schema: { type: 'object', properties: { a: { type: 'number' }, b: { type: 'number' } }, required: ['a', 'b'] },
};
const common = { model: 'k3', max_tokens: 300, temperature: 0 };
const text = (message) => message.content.filter((block) => block.type === 'text').map((block) => block.text).join('');

const checks = {
  async 'one message'(client) {
    const message = await client.messages.create({ ...common, messages: question });
    assert.match(text(message), /Paris/);
    assert.strictEqual(message.content[0].type, 'thinking');
    assert.ok(message.content[0].signature.length > 0);
    assert.strictEqual(message.stop_reason, 'end_turn');
    assert.ok(message.usage.input_tokens + message.usage.cache_read_input_tokens > 0 && message.usage.output_tokens > 0);
  },

  async 'thinking off'(client) {
    const message = await client.messages.create({ ...common, messages: question, thinking: { type: 'disabled' } });
    assert.strictEqual(message.content[0].type, 'text');
    assert.match(message.content[0].text, /Paris/);
  },

  async 'raw stream'(client) {
    const stream = await client.messages.create({ ...common, messages: question, stream: true });
    const seen = [];
    let said = '';
    for await (const event of stream) {
      if (seen.at(-1) !== event.type) seen.push(event.type);
      if (event.type === 'content_block_delta' && event.delta.type === 'text_delta') said += event.delta.text;
    }
    assert.match(said, /Paris/);
    const block = ['content_block_start', 'content_block_delta', 'content_block_stop'];
    assert.deepStrictEqual(seen, ['message_start', ...block, ...block, 'message_delta', 'message_stop']);
  },

  async 'stream helper'(client) {
    const stream = client.messages.stream({ ...common, messages: question });
    let words = '', thoughts = '';
    stream.on('text', (delta) => { words += delta; }).on('thinking', (delta) => { thoughts += delta; });
    const message = await stream.finalMessage();
    assert.match(words, /Paris/);
    assert.ok(thoughts.length > 0);
    assert.strictEqual(text(message), words);
    const whole = await client.messages.create({ ...common, messages: question });
    assert.deepStrictEqual(message.content.map((block) => block.text ?? block.thinking), whole.content.map((block) => block.text ?? block.thinking));
    assert.strictEqual(message.content[0].signature, whole.content[0].signature);
  },

  async 'tool loop'(client) {
    const asked = [{ role: 'user', content: 'Use the tool: add 16 and 75.' }];
    const body = { ...common, tools: [add], tool_choice: { type: 'any' } };
    const first = await client.messages.create({ ...body, messages: asked });
    assert.strictEqual(first.stop_reason, 'tool_use');
    const call = first.content.find((block) => block.type === 'tool_use');
    assert.strictEqual(call.name, 'add');
    assert.strictEqual(typeof call.input, 'object');
    const streamed = await client.messages.stream({ ...body, messages: asked }).finalMessage();
    assert.deepStrictEqual(streamed.content.find((block) => block.type === 'tool_use'), call);
    const result = { role: 'user', content: [{ type: 'tool_result', tool_use_id: call.id, content: '91' }] };
    const last = await client.messages.create({ ...common, tools: [add], messages: [...asked, { role: 'assistant', content: first.content }, result] });
    assert.ok(text(last).length > 0);
  },

  async 'count tokens'(client) {
    const body = { model: 'k3', messages: question, tools: [add], system: 'Be kind and short.' };
    const { input_tokens } = await client.messages.countTokens(body);
    const { usage } = await client.messages.create({ ...body, max_tokens: 5 });
    assert.strictEqual(usage.input_tokens + usage.cache_read_input_tokens, input_tokens);
  },

  async 'stop sequence and length'(client) {
    const stopped = await client.messages.create({ ...common, messages: question, stop_sequences: ['Paris'] });
    assert.strictEqual(stopped.stop_reason, 'stop_sequence');
    assert.strictEqual(stopped.stop_sequence, 'Paris');
    const cut = await client.messages.create({ ...common, messages: question, max_tokens: 3 });
    assert.strictEqual(cut.stop_reason, 'max_tokens');
  },

  async 'aborted stream'(client) {
    const stream = client.messages.stream({ ...common, messages: [{ role: 'user', content: 'Count 1 to 60.' }] });
    let events = 0;
    await assert.rejects(async () => {
      for await (const _ of stream) {
        if (++events === 3) stream.abort();
      }
      await stream.done();
    });
    assert.match(text(await client.messages.create({ ...common, messages: question })), /Paris/);
  },

  async errors(client) {
    const wrong = client.messages.create({ ...common, messages: [{ role: 'user', content: [{ type: 'image', source: {} }] }] });
    await assert.rejects(wrong, (error) => {
      assert.ok(error instanceof Anthropic.BadRequestError, `${error}`);
      assert.strictEqual(error.error.error.type, 'invalid_request_error');
      assert.match(error.message, /messages\[0\]\.content\[0\]/);
      return true;
    });
  },
};

// From the first moment on, so that a fast model has them, too.
const signsOfLife = [
  [],
  ['--nonstream-hold', '0', '--ping-seconds', '0.01'],
  ['--nonstream-hold', '0', '--nonstream-keepalive', '102', '--ping-seconds', '0.01', '--ping-style', 'delta'],
];

let failed = 0;
for (const args of signsOfLife) {
  await withServer(k3, { args }, async (server) => {
    const client = new Anthropic({ baseURL: server.url, apiKey: 'none', maxRetries: 0 });
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
