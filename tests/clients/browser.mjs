// Chromium without a window, for scripts that import it: a page is opened and spoken to over a pipe, with no package in between.
import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { waitFor } from './server.mjs';

// No browser, or one that ends before it has said a word: some containers allow it none of what it needs.
export class NoBrowser extends Error {}

export class Page {
  #child;
  #ended;
  #folder = mkdtempSync(join(tmpdir(), 'k3-browser-'));
  #waiting = new Map();
  #last = 0;
  #session;

  static async open(url) {
    const page = new Page();
    const flags = ['--headless', '--no-sandbox', '--disable-gpu', '--disable-dev-shm-usage', '--no-first-run', '--remote-debugging-pipe'];
    page.#child = spawn('chromium', [...flags, `--user-data-dir=${page.#folder}`, 'about:blank'],
      { stdio: ['ignore', 'ignore', 'ignore', 'pipe', 'pipe'] });
    page.#ended = new Promise((resolve) => {
      const over = (why) => {
        for (const { reject } of page.#waiting.values()) reject(new Error(why));
        resolve();
      };
      page.#child.on('error', (error) => over(error.message));
      page.#child.on('exit', () => over('the browser has ended'));
      for (const pipe of page.#child.stdio.slice(3)) pipe.on('error', () => {});  // that it has ended is told above
    });
    page.#listen();
    await page.#call('Browser.getVersion', {}).catch((error) => {
      throw new NoBrowser(error.message);
    });
    const { targetId } = await page.#call('Target.createTarget', { url });
    page.#session = (await page.#call('Target.attachToTarget', { targetId, flatten: true })).sessionId;
    return page;
  }

  // Messages are JSON, each ended by a zero byte.
  #listen() {
    let text = '';
    this.#child.stdio[4].setEncoding('utf8').on('data', (more) => {
      const parts = (text + more).split('\0');
      text = parts.pop();
      for (const part of parts) {
        const { id, result, error } = JSON.parse(part);
        const answer = this.#waiting.get(id);
        this.#waiting.delete(id);
        if (error) answer?.reject(new Error(error.message));
        else answer?.resolve(result);
      }
    });
  }

  #call(method, params) {
    const id = ++this.#last;
    const message = { id, method, params, ...(this.#session ? { sessionId: this.#session } : {}) };
    return new Promise((resolve, reject) => {
      this.#waiting.set(id, { resolve, reject });
      this.#child.stdio[3].write(`${JSON.stringify(message)}\0`);
    });
  }

  // What the page's own script would get for `expression`; of plain data.
  async value(expression) {
    const { result, exceptionDetails } = await this.#call('Runtime.evaluate', { expression, returnByValue: true, awaitPromise: true });
    if (exceptionDetails) throw new Error(`${expression}: ${exceptionDetails.exception?.description ?? exceptionDetails.text}`);
    return result.value;
  }

  until(what, expression) {
    return waitFor(what, () => this.value(expression), 120_000);
  }

  // Its helpers may still write for a moment after it has ended; a folder that cannot be removed for that is no failure.
  async close() {
    this.#session = undefined;
    this.#call('Browser.close', {}).catch(() => {});
    const late = setTimeout(() => this.#child.kill('SIGKILL'), 10_000);
    await this.#ended;
    clearTimeout(late);
    try {
      rmSync(this.#folder, { recursive: true, force: true, maxRetries: 20 });
    } catch (error) {
      console.error(`left behind: ${error.message}`);
    }
  }
}
