// openai.mjs K3: the npm package `openai` against `k3 serve`: streamed and not, its stream helper, tools, an aborted request, a request that
// it sends again, errors; with every way to keep an answer alive.
import assert from 'node:assert';
import OpenAI from 'openai';
import { waitFor, withServer } from '../server.mjs';

const k3 = process.argv[2];
const question = [{ role: 'user', content: 'What is the capital of France?' }];
const addTool = {
  type: 'function',
  function: {
    name: 'add',
    description: 'Adds two numbers.',
    parameters: { type: 'object', properties: { a: { type: 'number' }, b: { type: 'number' } }, required: ['a', 'b'] },
  },
};

let model = '';
const create = (client, body, options) => client.chat.completions.create({ model, temperature: 0, ...body }, options);

const checks = {
  async models(client) {
    const list = await client.models.list();
    model = list.data[0].id;
    assert.strictEqual((await client.models.retrieve(model)).id, model);
  },

  async 'one answer'(client) {
    const answer = await create(client, { messages: question });
    const message = answer.choices[0].message;
    assert.match(message.content, /Paris/);
    assert.match(message.reasoning_content, /Paris/);
    assert.strictEqual(answer.choices[0].finish_reason, 'stop');
    assert.ok(answer.usage.prompt_tokens > 0 && answer.usage.completion_tokens > 0);
  },

  async 'raw stream'(client) {
    const stream = await create(client, { messages: question, stream: true, stream_options: { include_usage: true } });
    const seen = { reasoning: '', content: '', finish: [], usage: null };
    for await (const chunk of stream) {
      seen.usage = chunk.usage ?? seen.usage;
      const choice = chunk.choices[0];
      if (!choice) continue;
      if (choice.delta.reasoning_content) assert.strictEqual(seen.content, '', 'thinking after the answer');
      seen.reasoning += choice.delta.reasoning_content ?? '';
      seen.content += choice.delta.content ?? '';
      if (choice.finish_reason) seen.finish.push(choice.finish_reason);
    }
    assert.match(seen.content, /Paris/);
    assert.ok(seen.reasoning.length > 0);
    assert.deepStrictEqual(seen.finish, ['stop']);
    assert.ok(seen.usage.completion_tokens > 0);
  },

  async 'stream helper'(client) {
    const stream = client.chat.completions.stream({ model, temperature: 0, messages: question });
    let words = '';
    stream.on('content', (delta) => { words += delta; });
    const whole = await stream.finalChatCompletion();
    assert.match(words, /Paris/);
    assert.strictEqual(whole.choices[0].message.content, words);
  },

  async 'tool calls'(client) {
    const body = { messages: [{ role: 'user', content: 'Use the tool: add 16 and 75.' }], tools: [addTool], tool_choice: 'required' };
    const whole = await create(client, body);
    const [call] = whole.choices[0].message.tool_calls;
    assert.strictEqual(whole.choices[0].finish_reason, 'tool_calls');
    assert.strictEqual(call.function.name, 'add');
    const values = JSON.parse(call.function.arguments);
    assert.strictEqual(typeof values, 'object');

    const streamed = await client.chat.completions.stream({ model, temperature: 0, ...body }).finalChatCompletion();
    const [same] = streamed.choices[0].message.tool_calls;
    assert.deepStrictEqual([same.function.name, same.function.arguments], [call.function.name, call.function.arguments]);

    const result = { role: 'tool', tool_call_id: call.id, content: '91' };
    const after = await create(client, { messages: [...body.messages, whole.choices[0].message, result], tools: [addTool] });
    assert.ok(after.choices[0].message.content.length > 0);
  },

  async 'aborted stream'(client) {
    const abort = new AbortController();
    const stream = await create(client, { messages: [{ role: 'user', content: 'Count 1 to 60.' }], stream: true }, { signal: abort.signal });
    let chunks = 0;
    for await (const _ of stream) {
      if (++chunks === 3) abort.abort();
    }
    assert.ok(chunks < 60, `${chunks} chunks after an abort at the third`);
    assert.match((await create(client, { messages: question })).choices[0].message.content, /Paris/);
  },

  // The first try is given up when the model is at work on it; the second one must hear the end of that work.
  async 'sent again'(client, server) {
    let tries = 0;
    const atWork = async () => /k3_requests_in_state\{state="(prefill|decode)"\} [1-9]/.test(await (await fetch(`${server.url}/metrics`)).text());
    const impatient = async (url, init) => {
      if (++tries > 1) return fetch(url, init);
      const abort = new AbortController();
      const first = fetch(url, { ...init, signal: abort.signal }).catch(() => {});
      await waitFor('the model to be at work', atWork);
      abort.abort();
      await first;
      throw new TypeError('fetch failed');
    };
    const again = new OpenAI({ baseURL: client.baseURL, apiKey: 'none', maxRetries: 1, fetch: impatient });
    const body = { messages: [{ role: 'user', content: 'Count 1 to 60.' }] };
    const { data, response } = await create(again, body).withResponse();
    assert.strictEqual(tries, 2);
    assert.strictEqual(response.headers.get('x-k3-joined'), 'true');
    assert.ok(data.choices[0].message.content.length > 0);
  },

  async logprobs(client) {
    const body = { messages: question, logprobs: true, top_logprobs: 3 };
    const choice = (await create(client, body)).choices[0];
    const bytes = choice.logprobs.content.flatMap((token) => token.bytes);
    assert.strictEqual(Buffer.from(bytes).toString(), choice.message.content);
    for (const token of choice.logprobs.content) assert.strictEqual(token.top_logprobs.length, 3);
    const streamed = await client.chat.completions.stream({ model, temperature: 0, ...body }).finalChatCompletion();
    assert.deepStrictEqual(streamed.choices[0].logprobs.content, choice.logprobs.content);
  },

  async completions(client) {
    const answer = await client.completions.create({ model, prompt: 'one two three', max_tokens: 5, temperature: 0 });
    assert.strictEqual(typeof answer.choices[0].text, 'string');
    assert.ok(answer.usage.completion_tokens <= 5);
  },

  async errors(client) {
    await assert.rejects(create(client, { messages: [{ role: 'nobody', content: 'x' }] }), (error) => {
      assert.ok(error instanceof OpenAI.BadRequestError, `${error}`);
      assert.match(error.param, /messages/);
      return true;
    });
    await assert.rejects(create(client, { messages: question, n: 2 }), OpenAI.BadRequestError);
  },
};

// From the first moment on, so that a fast model has them, too.
const signsOfLife = [
  [],
  ['--nonstream-hold', '0', '--ping-style', 'delta', '--ping-seconds', '0.01'],
  ['--nonstream-hold', '0', '--nonstream-keepalive', '102', '--ping-seconds', '0.01'],
];

let failed = 0;
for (const args of signsOfLife) {
  await withServer(k3, { args }, async (server) => {
    const client = new OpenAI({ baseURL: `${server.url}/v1`, apiKey: 'none', maxRetries: 0 });
    for (const [name, check] of Object.entries(checks)) {
      const what = [name, ...args].join(' ');
      try {
        await check(client, server);
        console.log(`ok      ${what}`);
      } catch (error) {
        failed++;
        console.log(`FAILED  ${what}: ${error.stack}`);
      }
    }
  });
}
process.exit(failed === 0 ? 0 : 1);
