// One conversation. The history goes back to the server whole, thinking included: the model was trained to see it, and what it has
// already read need not be computed again.
import { chat, endThinking, ServerError } from './stream.js';
import { GrowingText } from './text.js';

const $ = (id) => document.getElementById(id);
const log = $('log');
const messages = [];
let running = null; // the turn in the making
let key = '';       // in memory only: what is stored can be stolen

function add(parent, name, className, text) {
  const node = document.createElement(name);
  if (className) node.className = className;
  if (text) node.textContent = text;
  parent.append(node);
  return node;
}

// Follows the answer's end, unless the reader has scrolled away from it.
function keepEndInView(change) {
  const atEnd = log.scrollHeight - log.scrollTop - log.clientHeight < 60;
  change();
  if (atEnd) log.scrollTop = log.scrollHeight;
}

class AnswerView {
  reasoning = '';
  content = '';
  #article = add(log, 'article', 'assistant');
  #details = null;
  #summary = null;
  #thinking = null;
  #answer = add(this.#article, 'div', 'answer');
  #text = new GrowingText(this.#answer);
  #due = false;
  #skip = null;

  // `skip` ends the thinking; the answer is not begun by it, but follows.
  think(text, skip) {
    if (!this.#details) {
      this.#details = document.createElement('details');
      this.#details.open = true;
      this.#summary = add(this.#details, 'summary', '', 'Thinking…');
      this.#skip = add(this.#details, 'button', 'skip', 'Skip thinking');
      this.#skip.type = 'button';
      this.#skip.addEventListener('click', () => {
        this.#skip.disabled = true;
        skip();
      });
      this.#thinking = add(this.#details, 'div');
      this.#article.prepend(this.#details);
    }
    this.reasoning += text;
    this.#draw();
  }

  say(text) {
    if (this.content === '' && this.#details) {
      this.#details.open = false;
      this.end();
    }
    this.content += text;
    this.#draw();
  }

  // Once a frame, however fast tokens come.
  #draw() {
    if (this.#due) return;
    this.#due = true;
    requestAnimationFrame(() => {
      this.#due = false;
      keepEndInView(() => {
        if (this.#thinking) this.#thinking.textContent = this.reasoning;
        this.#text.show(this.content);
      });
    });
  }

  end() {
    if (this.#summary) this.#summary.textContent = 'Thinking';
    this.#skip?.remove();
  }

  note(text, className) {
    keepEndInView(() => add(this.#article, 'p', className, text));
  }
}

function clock(milliseconds) {
  const seconds = Math.floor(milliseconds / 1000);
  const two = (n) => String(n).padStart(2, '0');
  const hours = Math.floor(seconds / 3600);
  return `${hours ? `${hours}:` : ''}${two(Math.floor(seconds / 60) % 60)}:${two(seconds % 60)}`;
}

class Progress {
  #begun = performance.now();
  #phase = 'connecting';
  #firstToken = 0;
  #tokens = 0;
  #timer = setInterval(() => this.#show(), 500);

  constructor() {
    this.#show();
  }

  phase(text) {
    this.#phase = text;
    this.#show();
  }

  token() {
    if (this.#tokens === 0) this.#firstToken = performance.now();
    this.#tokens++;
  }

  #show() {
    $('status').textContent = `${this.#tokens > 1 ? `writing, ${this.#rate()}` : this.#phase} · ${clock(performance.now() - this.#begun)}`;
  }

  #rate() {
    const perSecond = (this.#tokens - 1) / Math.max(0.001, (performance.now() - this.#firstToken) / 1000);
    return perSecond >= 1 ? `${perSecond.toFixed(perSecond < 10 ? 1 : 0)} tokens/s` : `${(1 / perSecond).toFixed(1)} s a token`;
  }

  end(usage) {
    clearInterval(this.#timer);
    const parts = [];
    if (usage) {
      const cached = usage.prompt_tokens_details?.cached_tokens ?? 0;
      parts.push(`read ${usage.prompt_tokens} tokens${cached ? ` (${cached} known)` : ''}, wrote ${usage.completion_tokens}`);
      if (this.#tokens > 1) parts.push(this.#rate());
    }
    parts.push(clock(performance.now() - this.#begun));
    $('status').textContent = parts.join(' · ');
  }
}

function requestBody() {
  const body = { messages, stream: true, stream_options: { include_usage: true }, return_progress: true };
  const effort = $('think').value;
  body.thinking = effort === 'off' ? { type: 'disabled' } : { type: 'enabled', effort };
  const temperature = Number.parseFloat($('temperature').value);
  if (Number.isFinite(temperature)) body.temperature = temperature;
  return body;
}

function take(chunk, view, progress) {
  const read = chunk.prompt_progress;
  if (chunk.queue) {
    const { position, turn_in_ms: wait } = chunk.queue;
    progress.phase(`waiting, ${position} before this one${wait > 0 ? `, about ${clock(wait)}` : ''}`);
  } else if (read) {
    progress.phase(`reading, ${read.processed} of ${read.total} tokens`);
  }
  const choice = chunk.choices[0];
  if (!choice) return null;
  const { reasoning_content: thought, content } = choice.delta;
  if (thought) view.think(thought, () => skipThinking(chunk.id, view));
  if (content) view.say(content);
  if (thought || content) progress.token();
  return choice.finish_reason ?? null;
}

async function skipThinking(id, view) {
  try {
    await endThinking(id, key);
  } catch (error) {
    explain(error, view);
  }
}

// Out of tokens: in mid-thought the answer looks empty, and the reader should know why and what helps.
function explainLength(view) {
  view.note(view.content !== ''
    ? 'Cut off: the limit of tokens is reached.'
    : 'Cut off while still thinking: the limit of tokens is reached before an answer was begun. Choose less thinking above, press '
      + '“Skip thinking” sooner, or start the server with a larger --max-context.', 'note');
}

function explain(error, view) {
  if (error.name === 'AbortError') {
    view.note('Stopped.', 'note');
    return;
  }
  let text = error.message;
  if (error.retryAfter) text += ` Try again in ${error.retryAfter} s.`;
  if (error instanceof TypeError) text = `The server cannot be reached: ${error.message}`;
  view.note(text, 'error');
  if (error instanceof ServerError && error.status === 401) {
    $('key-form').hidden = false;
    $('key').focus();
  }
}

// Keeps what there is of the answer: a stopped one too, so that the conversation can go on from it.
function remember(view) {
  if (view.content === '' && view.reasoning === '') {
    messages.pop();
    return;
  }
  const message = { role: 'assistant', content: view.content };
  if (view.reasoning) message.reasoning_content = view.reasoning;
  messages.push(message);
}

async function turn(text) {
  $('hint')?.remove();
  add(log, 'article', 'user', text);
  messages.push({ role: 'user', content: text });
  const view = new AnswerView();
  log.scrollTop = log.scrollHeight;
  const progress = new Progress();
  const abort = new AbortController();
  running = abort;
  $('send').hidden = true;
  $('stop').hidden = false;
  let usage = null;
  try {
    const opened = () => progress.phase('waiting for its turn');
    for await (const chunk of chat(requestBody(), { signal: abort.signal, key, opened })) {
      usage = chunk.usage ?? usage;
      if (take(chunk, view, progress) === 'length') explainLength(view);
    }
  } catch (error) {
    explain(error, view);
  }
  view.end();
  progress.end(usage);
  if (running !== abort) return; // a new chat has begun meanwhile
  running = null;
  remember(view);
  $('send').hidden = false;
  $('stop').hidden = true;
  $('text').focus();
}

function fit() {
  const text = $('text');
  text.style.height = 'auto';
  text.style.height = `${text.scrollHeight + 2}px`;
}

$('composer').addEventListener('submit', (event) => {
  event.preventDefault();
  const text = $('text').value.trim();
  if (running || text === '') return;
  $('text').value = '';
  fit();
  turn(text);
});
$('text').addEventListener('input', fit);
$('text').addEventListener('keydown', (event) => {
  // isComposing: Enter then ends a word of an input method, not the message.
  if (event.key === 'Enter' && !event.shiftKey && !event.isComposing) {
    event.preventDefault();
    $('composer').requestSubmit();
  }
});
$('stop').addEventListener('click', () => running?.abort());
document.addEventListener('keydown', (event) => {
  if (event.key === 'Escape') running?.abort();
});
$('fresh').addEventListener('click', () => {
  running?.abort();
  running = null;
  messages.length = 0;
  log.replaceChildren();
  $('send').hidden = false;
  $('stop').hidden = true;
  $('status').textContent = '';
  $('text').focus();
});
$('key-form').addEventListener('submit', (event) => {
  event.preventDefault();
  key = $('key').value;
  $('key').value = '';
  $('key-form').hidden = true;
  showModel();
});

async function showModel() {
  try {
    const response = await fetch('v1/models', { headers: key ? { Authorization: `Bearer ${key}` } : {} });
    if (response.status === 401) $('key-form').hidden = false;
    if (response.status === 503) {
      $('status').textContent = 'the model is loading';
      setTimeout(showModel, 2000);
    }
    if (!response.ok) return;
    $('model').textContent = (await response.json()).data[0].id;
    if ($('status').textContent === 'the model is loading') $('status').textContent = '';
  } catch (error) {
    $('status').textContent = `the server cannot be reached: ${error.message}`;
  }
}
showModel();
