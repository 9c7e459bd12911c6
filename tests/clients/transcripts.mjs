// transcripts.mjs K3: the recorded greedy conversations of the bundled model, through the HTTP API, streamed and not.
import assert from 'node:assert';
import { readFileSync } from 'node:fs';
import { assemble, post, postStreamed, withServer } from './server.mjs';

const k3 = process.argv[2];
const transcripts = readFileSync(new URL('../data/mini_transcripts.jsonl', import.meta.url), 'utf8').trim().split('\n').map((line) => JSON.parse(line));

// What has to agree: an empty answer may be absent or empty, and ids of calls are the server's own affair.
function essence(message) {
  return {
    reasoning: message.reasoning_content ?? '',
    content: message.content ?? '',
    calls: (message.tool_calls ?? []).map((call) => [call.function.name, call.function.arguments]),
  };
}

async function check(server, transcript) {
  const request = { ...transcript.request, temperature: 0 };
  const rendered = await post(`${server.url}/apply-template`, transcript.request);
  assert.deepStrictEqual(rendered.tokens, transcript.prompt_ids, 'prompt ids');

  const whole = await post(`${server.url}/v1/chat/completions`, request);
  assert.deepStrictEqual(essence(whole.choices[0].message), essence(transcript.message), 'message');
  assert.strictEqual(whole.choices[0].finish_reason, transcript.finish_reason, 'finish reason');
  assert.strictEqual(whole.usage.total_tokens, whole.usage.prompt_tokens + whole.usage.completion_tokens, 'usage');

  const chunks = await postStreamed(`${server.url}/v1/chat/completions`, { ...request, stream_options: { include_usage: true } });
  const streamed = assemble(chunks);
  assert.deepStrictEqual(essence(streamed.message), essence(transcript.message), 'streamed message');
  assert.strictEqual(streamed.finish_reason, transcript.finish_reason, 'streamed finish reason');
  assert.strictEqual(streamed.usage.completion_tokens, whole.usage.completion_tokens, 'streamed usage');
}

let bad = 0;
await withServer(k3, {}, async (server) => {
  for (const [i, transcript] of transcripts.entries()) {
    try {
      await check(server, transcript);
    } catch (error) {
      bad++;
      console.error(`transcript ${i} (${transcript.task}): ${error.message}`);
    }
  }
});
console.log(`${transcripts.length - bad} of ${transcripts.length} transcripts reproduced`);
process.exit(bad === 0 && transcripts.length >= 40 ? 0 : 1);
