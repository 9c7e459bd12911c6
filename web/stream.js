// Server-sent events over fetch: EventSource can neither post nor send a key.

// Bytes of a stream, cut anywhere, to the data of its events. Comments (the server's signs of life) and other fields are skipped.
export class EventParser {
  #line = '';
  #data = [];
  #afterReturn = false;

  push(text) {
    const events = [];
    for (const character of text) {
      const newline = character === '\n' || character === '\r';
      // The second half of a line end that the cut may have parted from the first.
      const secondHalf = character === '\n' && this.#afterReturn;
      this.#afterReturn = character === '\r';
      if (secondHalf) continue;
      if (!newline) {
        this.#line += character;
        continue;
      }
      this.#endLine(events);
    }
    return events;
  }

  #endLine(events) {
    const line = this.#line;
    this.#line = '';
    if (line === '') {
      if (this.#data.length > 0) events.push(this.#data.join('\n'));
      this.#data = [];
    } else if (line.startsWith('data:')) {
      this.#data.push(line.slice(line[5] === ' ' ? 6 : 5));
    }
  }
}

export class ServerError extends Error {
  constructor(message, status, retryAfter) {
    super(message);
    this.status = status;
    this.retryAfter = retryAfter;
  }
}

async function failure(response) {
  let message = `the server answered ${response.status}`;
  try {
    message = (await response.json()).error.message;
  } catch {
    // Not our server's words: a proxy's page, perhaps. The status has to do.
  }
  return new ServerError(message, response.status, response.headers.get('retry-after'));
}

// Posts a chat request and yields its chunks. `opened` is called when the server has taken it, be it into the queue. Ends after [DONE];
// a stream that breaks off before is an error.
export async function* chat(request, { signal, key, opened }) {
  const headers = { 'Content-Type': 'application/json' };
  if (key) headers.Authorization = `Bearer ${key}`;
  const response = await fetch('v1/chat/completions', { method: 'POST', headers, body: JSON.stringify(request), signal });
  if (!response.ok) throw await failure(response);
  opened();

  const parser = new EventParser();
  const decoder = new TextDecoder();
  const reader = response.body.getReader();
  for (;;) {
    const { done, value } = await reader.read();
    if (done) throw new ServerError('the answer broke off: the connection was closed', 0, null);
    for (const data of parser.push(decoder.decode(value, { stream: true }))) {
      if (data === '[DONE]') return;
      const chunk = JSON.parse(data);
      if (chunk.error) throw new ServerError(chunk.error.message, 0, null);
      yield chunk;
    }
  }
}

// Has the answer of that id end its thinking and begin what follows.
export async function endThinking(id, key) {
  const headers = key ? { Authorization: `Bearer ${key}` } : {};
  const response = await fetch(`v1/chat/completions/${encodeURIComponent(id)}/end_thinking`, { method: 'POST', headers });
  if (!response.ok) throw await failure(response);
}
