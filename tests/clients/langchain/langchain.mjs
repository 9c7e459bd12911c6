// langchain.mjs K3: the npm package `@langchain/openai` against `k3 serve`: chats, streams and a tool loop, through chat completions and
// through Responses.
import assert from 'node:assert';
import { HumanMessage, ToolMessage } from '@langchain/core/messages';
import { tool } from '@langchain/core/tools';
import { ChatOpenAI } from '@langchain/openai';
import { withServer } from '../server.mjs';

const k3 = process.argv[2];
const question = 'What is the capital of France?';
const add = tool(({ a, b }) => `${Number(a) + Number(b)}`, {
  name: 'add',
  description: 'Adds two numbers.',
  schema: { type: 'object', properties: { a: { type: 'number' }, b: { type: 'number' } }, required: ['a', 'b'] },
});
const text = (message) => (typeof message.content === 'string' ? message.content : message.content.map((part) => part.text ?? '').join(''));

const checks = {
  async chat(model) {
    const answer = await model.invoke(question);
    assert.match(text(answer), /Paris/);
    assert.ok(answer.usage_metadata.output_tokens > 0);
  },

  async stream(model) {
    let words = '';
    for await (const chunk of await model.stream(question)) words += text(chunk);
    assert.match(words, /Paris/);
  },

  async 'tool loop'(model) {
    const asked = [new HumanMessage('Use the tool: add 16 and 75.')];
    const first = await model.bindTools([add], { tool_choice: 'required' }).invoke(asked);
    assert.strictEqual(first.tool_calls[0].name, 'add');
    const [call] = first.tool_calls;
    const result = new ToolMessage({ content: '91', tool_call_id: call.id });
    const last = await model.bindTools([add]).invoke([...asked, first, result]);
    assert.ok(text(last).length > 0);
  },
};

let failed = 0;
await withServer(k3, {}, async (server) => {
  for (const useResponsesApi of [false, true]) {
    const configuration = { baseURL: `${server.url}/v1` };
    const model = new ChatOpenAI({ model: 'k3', apiKey: 'none', temperature: 0, maxRetries: 0, useResponsesApi, configuration });
    for (const [name, check] of Object.entries(checks)) {
      const what = `${name}${useResponsesApi ? ' through Responses' : ''}`;
      try {
        await check(model);
        console.log(`ok      ${what}`);
      } catch (error) {
        failed++;
        console.log(`FAILED  ${what}: ${error.stack}`);
      }
    }
  }
});
process.exit(failed === 0 ? 0 : 1);
