// thinking_page.mjs K3: the page in a browser, before a model of random weights that never ends its thinking by itself.
// H6: a button ends it, and the answer follows. F5: where the tokens run out in mid-thought, the page says so and what helps.
import assert from 'node:assert';
import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { NoBrowser, Page } from './browser.mjs';
import { withServer } from './server.mjs';

const k3 = process.argv[2];
const folder = mkdtempSync(join(tmpdir(), 'k3-thinking-'));
const model = join(folder, 'model');

async function withPage(server, body) {
  const page = await Page.open(server.url);
  try {
    await page.until('the page to know its model', "(document.getElementById('model')?.textContent ?? '') !== ''");
    // Without chance: the same tokens each time.
    await page.value("document.getElementById('temperature').value = '0'; document.getElementById('text').value = 'Think.'");
    await page.value("document.getElementById('composer').requestSubmit()");
    await body(page);
  } finally {
    await page.close();
  }
}

const exists = (selector) => `document.querySelector('${selector}') !== null`;
const text = (selector) => `document.querySelector('${selector}')?.textContent ?? ''`;

async function skipping(page) {
  // In one step: a small model may be done thinking between two.
  const seen = await page.until('a button while the model thinks', `(() => {
    const button = document.querySelector('details .skip');
    if (button === null) return null;
    const before = { label: button.textContent, answer: ${text('.answer')} };
    button.click();
    return { ...before, disabled: button.disabled };
  })()`);
  assert.deepStrictEqual(seen, { label: 'Skip thinking', answer: '', disabled: true });
  await page.until('the answer', `${text('.answer')} !== ''`);
  assert.strictEqual(await page.value(exists('.skip')), false, 'the button is gone with the thinking');
  assert.strictEqual(await page.value("document.querySelector('details').open"), false);
  assert.strictEqual(await page.value(exists('.error')), false);
  await page.value("document.getElementById('stop').click()");
  await page.until('the stop', "!document.getElementById('send').hidden");
}

async function runningOut(page) {
  await page.until('the end', "!document.getElementById('send').hidden");
  const note = await page.value(text('.note'));
  assert.match(note, /still thinking.*limit of tokens.*Skip thinking.*--max-context/);
  assert.strictEqual(await page.value(text('.answer')), '');
  assert.strictEqual(await page.value(exists('.skip')), false, 'nothing is left to skip');
}

try {
  execFileSync(k3, ['synth', model, '--tiny', '--layers', '24', '--experts', '8', '--vocab', '2048'], { stdio: 'ignore' });
  await withServer(k3, { model }, (server) => withPage(server, skipping));
  await withServer(k3, { model, args: ['--max-context', '300'] }, (server) => withPage(server, runningOut));
} catch (error) {
  if (!(error instanceof NoBrowser)) throw error;
  console.log(`SKIPPED: no browser can run here: ${error.message}`);
  process.exit(0);
} finally {
  rmSync(folder, { recursive: true, force: true });
}
console.log('the page in a browser: thinking is skipped, and said to be cut where it is');
