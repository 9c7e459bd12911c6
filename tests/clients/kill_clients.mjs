// kill_clients.mjs K3 [ROUNDS]: clients that vanish while queued, while their prompt is read and while their answer is written. The next
// answer must be what a fresh server says, and nothing may be left behind: no open file, no memory, and no leak a sanitizer would find.
import assert from 'node:assert';
import http from 'node:http';
import { post, waitFor, withServer } from './server.mjs';

const k3 = process.argv[2];
const rounds = Number(process.argv[3] ?? 20);
const sanitized = /asan|tsan/.test(k3); // there memory that was given back stays counted for a while

const probe = { messages: [{ role: 'user', content: 'What is 48+75?' }], temperature: 0.8, seed: 7 };
const question = { messages: [{ role: 'user', content: 'Count 1 to 60.' }], temperature: 0, stream: true };
// Far too much to read in the moment before the client leaves.
const longPrompt = { messages: [{ role: 'user', content: 'The cat sat on the mat. '.repeat(350) }], temperature: 0, stream: true, return_progress: true };

async function answerOf(server) {
  const { message, finish_reason } = (await post(`${server.url}/v1/chat/completions`, probe)).choices[0];
  return JSON.stringify([message, finish_reason]);
}

// A request over a socket of its own. `data` collects what has arrived; vanish() resets the connection.
function client(server, body) {
  const self = { data: '', failed: null };
  const text = JSON.stringify(body);
  const request = http.request(`${server.url}/v1/chat/completions`, {
    method: 'POST', agent: false, headers: { 'Content-Type': 'application/json', 'Content-Length': Buffer.byteLength(text) },
  }, (response) => {
    self.answered = true;
    response.setEncoding('utf8').on('data', (part) => { self.data += part; }).on('error', () => {});
  });
  request.on('error', (error) => { self.failed = error; });
  request.end(text);
  self.vanish = () => request.destroy();
  return self;
}

async function killInDecode(server) {
  const one = client(server, question);
  await waitFor('the first words', () => /"(reasoning_content|content)":"[^"]/.test(one.data));
  one.vanish();
}

async function killInPrefill(server) {
  const one = client(server, longPrompt);
  await waitFor('the stream to open', () => one.answered);
  one.vanish();
}

async function killBeforeAnswer(server) {
  const one = client(server, { ...question, stream: false });
  await new Promise((resolve) => setTimeout(resolve, 15));
  one.vanish();
}

async function killInQueue(server) {
  const running = client(server, longPrompt);
  await waitFor('the first stream to open', () => running.answered);
  const queued = [client(server, question), client(server, question)];
  await waitFor('the queued streams to open', () => queued.every((one) => one.answered));
  for (const one of queued) one.vanish();
  running.vanish();
}

let fresh = '';
await withServer(k3, {}, async (server) => { fresh = await answerOf(server); });

await withServer(k3, {}, async (server) => {
  const samples = [];
  for (let round = 0; round < rounds; round++) {
    for (const kill of [killInQueue, killInPrefill, killInDecode, killBeforeAnswer]) {
      await kill(server);
      assert.strictEqual(await answerOf(server), fresh, `round ${round}: the answer after ${kill.name} is not a fresh server's`);
    }
    samples.push({ files: server.openFiles(), resident: server.resident() });
  }
  // What a first round takes, it may keep: buffers that have grown to their size, sequences the model keeps alive.
  const settled = samples[Math.min(samples.length - 1, Math.floor(rounds / 4))];
  await waitFor('vanished clients\' sockets to be closed', () => server.openFiles() <= settled.files + 2);
  const last = samples[samples.length - 1];
  const megabytes = (last.resident - settled.resident) / 1e6;
  console.log(`${rounds} rounds: files ${settled.files} to ${server.openFiles()}, own memory grew by ${megabytes.toFixed(1)} MB since a quarter of them`);
  if (!sanitized) assert.ok(megabytes < 16, 'memory grows with vanished clients');
});
console.log('every answer was a fresh server\'s');
