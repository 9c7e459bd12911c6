// Starts `k3 serve` on a free port for a test, and ends it.
import { spawn } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';

const startDeadline = 120_000; // loading under a sanitizer on a busy machine
const sleep = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds));

export async function waitFor(what, condition, deadline = 60_000) {
  const end = Date.now() + deadline;
  for (;;) {
    const value = await condition();
    if (value) return value;
    if (Date.now() > end) throw new Error(`waited ${deadline / 1000} s for: ${what}`);
    await sleep(20);
  }
}

export class Server {
  #child;
  #ended;
  #output = '';
  url = '';

  static async start(k3, { model = 'bundled', args = [] } = {}) {
    const server = new Server();
    server.#child = spawn(k3, ['serve', model, '--port', '0', ...args], { stdio: ['ignore', 'pipe', 'pipe'] });
    for (const stream of [server.#child.stdout, server.#child.stderr]) {
      stream.setEncoding('utf8').on('data', (text) => { server.#output += text; });
    }
    server.#ended = new Promise((resolve) => {
      server.#child.on('error', (error) => resolve(`${error}`));
      server.#child.on('exit', (code, signal) => resolve(signal ?? code));
    });
    let over = false;
    server.#ended.then(() => { over = true; });
    server.url = await waitFor('the server to listen', () => {
      if (over) throw new Error(`the server ended at once: ${server.#output}`);
      return /listening on (http:\/\/\S+)/.exec(server.#output)?.[1];
    }, startDeadline);
    await waitFor('the model to load', async () => {
      if (over) throw new Error(`the server ended while loading: ${server.#output}`);
      return (await fetch(`${server.url}/health`)).status === 200;
    }, startDeadline);
    return server;
  }

  get pid() { return this.#child.pid; }
  get output() { return this.#output; }

  openFiles() { return readdirSync(`/proc/${this.pid}/fd`).length; }
  // Memory of its own, in bytes; mapped files do not count.
  resident() {
    const status = readFileSync(`/proc/${this.pid}/status`, 'utf8');
    return Number(/RssAnon:\s+(\d+)/.exec(status)[1]) * 1024;
  }

  // Asks it to end as an operator would, and insists that it does so well: a sanitizer's complaint shows in the exit code.
  async stop() {
    this.#child.kill('SIGTERM');
    const late = setTimeout(() => this.kill(), 60_000);
    const code = await this.#ended;
    clearTimeout(late);
    if (code !== 0) throw new Error(`the server ended with ${code} after SIGTERM: ${this.#output.slice(-4000)}`);
  }

  kill() { this.#child.kill('SIGKILL'); }
}

// Runs `body(server)` and ends the server whatever happens.
export async function withServer(k3, options, body) {
  const server = await Server.start(k3, options);
  try {
    await body(server);
  } catch (error) {
    server.kill();
    throw error;
  }
  await server.stop();
}

export async function post(url, body) {
  const response = await fetch(url, { method: 'POST', headers: { 'Content-Type': 'application/json' }, body: JSON.stringify(body) });
  const text = await response.text();
  if (!response.ok) throw new Error(`${url}: ${response.status} ${text}`);
  return JSON.parse(text);
}

// The data of all events of a streamed answer, and that it ended as it should.
export async function postStreamed(url, body) {
  const response = await fetch(url, { method: 'POST', headers: { 'Content-Type': 'application/json' }, body: JSON.stringify({ ...body, stream: true }) });
  const text = await response.text();
  if (!response.ok) throw new Error(`${url}: ${response.status} ${text}`);
  const data = text.split('\n\n').map((event) => event.split('\n').filter((line) => !line.startsWith(':')).join('\n'))
    .filter((event) => event !== '').map((event) => {
      if (!event.startsWith('data: ')) throw new Error(`an event that is not data: ${event}`);
      return event.slice(6);
    });
  if (data.pop() !== '[DONE]') throw new Error(`the stream does not end with [DONE]: ${text.slice(-300)}`);
  return data.map((event) => JSON.parse(event));
}

// Chunks put together again as the message they stand for. Insists on what strict clients need.
export function assemble(chunks) {
  const message = {};
  const finishes = [];
  let usage = null;
  for (const [i, chunk] of chunks.entries()) {
    if (!Array.isArray(chunk.choices)) throw new Error('a chunk without choices');
    usage = chunk.usage ?? usage;
    const choice = chunk.choices[0];
    if (!choice) continue;
    const delta = choice.delta;
    if (i === 0 && delta.role !== 'assistant') throw new Error('the first chunk does not give the role');
    for (const [name, value] of Object.entries(delta)) {
      if (value === null) throw new Error(`a null in a delta: ${name}`);
    }
    for (const name of ['reasoning_content', 'content']) {
      if (name in delta) message[name] = (message[name] ?? '') + delta[name];
    }
    for (const part of delta.tool_calls ?? []) addCall(message, part);
    if (choice.finish_reason) finishes.push(choice.finish_reason);
  }
  if (finishes.length !== 1) throw new Error(`${finishes.length} finish reasons in one stream`);
  return { message, finish_reason: finishes[0], usage };
}

function addCall(message, part) {
  message.tool_calls ??= [];
  const call = message.tool_calls[part.index];
  if (!call) {
    if (!part.id || part.type !== 'function' || !part.function?.name) throw new Error('the first delta of a call lacks id, type or name');
    message.tool_calls[part.index] = { id: part.id, type: 'function', function: { name: part.function.name, arguments: part.function.arguments ?? '' } };
    return;
  }
  if ('id' in part || 'type' in part || 'name' in part.function) throw new Error('a later delta of a call repeats id, type or name');
  call.function.arguments += part.function.arguments;
}
