// page.mjs K3: the modules of the page, and what the server sends with it.
import assert from 'node:assert';
import { readFileSync } from 'node:fs';
import { withServer } from './server.mjs';

const k3 = process.argv[2];
const web = new URL('../../web/', import.meta.url);
// As a data address, because Node would take a lone .js file for the older kind of module.
const load = (name) => import(`data:text/javascript,${encodeURIComponent(readFileSync(new URL(name, web), 'utf8'))}`);
const { EventParser } = await load('stream.js');
const { blocksOf, spansOf, GrowingText } = await load('text.js');

function eventsSurviveEveryCut() {
  const stream = ': sign of life\n\ndata: {"a":1}\r\n\r\ndata:two\ndata: lines\n\n: \n\nevent: x\ndata: [DONE]\n\n';
  const whole = ['{"a":1}', 'two\nlines', '[DONE]'];
  for (let cut = 0; cut <= stream.length; cut++) {
    const parser = new EventParser();
    assert.deepStrictEqual([...parser.push(stream.slice(0, cut)), ...parser.push(stream.slice(cut))], whole, `cut at ${cut}`);
  }
}

function blocksAreRecognised() {
  const source = '# Title\nSome **bold** `code`.\nSecond line\n\n- a\n- b\n\n1. x\n2. y\n\n'
    + '```js\nlet a = "<b>";\n\n```\n\n| n | m |\n|---|---|\n| 1 | 2 |\n\nend';
  assert.deepStrictEqual(blocksOf(source), [
    { kind: 'heading', level: 1, text: 'Title' },
    { kind: 'paragraph', text: 'Some **bold** `code`.\nSecond line' },
    { kind: 'bullets', items: ['a', 'b'] },
    { kind: 'numbers', items: ['x', 'y'] },
    { kind: 'code', language: 'js', text: 'let a = "<b>";\n' },
    { kind: 'table', head: ['n', 'm'], rows: [['1', '2']] },
    { kind: 'paragraph', text: 'end' },
  ]);
  assert.deepStrictEqual(blocksOf('```\nopen'), [{ kind: 'code', language: '', text: 'open' }]);
  assert.deepStrictEqual(spansOf('a **b** `c` 2*3*4'), [
    { kind: 'text', text: 'a ' }, { kind: 'strong', text: 'b' }, { kind: 'text', text: ' ' }, { kind: 'code', text: 'c' },
    { kind: 'text', text: ' 2' }, { kind: 'em', text: '3' }, { kind: 'text', text: '4' },
  ]);
}

// Just enough of a document for text.js: elements that remember what was put into them.
class Node {
  children = [];
  constructor(name) { this.name = name; }
  append(...children) {
    for (const child of children) {
      if (child instanceof Node) child.parent = this;
      this.children.push(child);
    }
  }
  remove() { this.parent.children.splice(this.parent.children.indexOf(this), 1); }
  get text() { return this.children.map((child) => (child instanceof Node ? child.text : child)).join(''); }
  get names() { return this.children.flatMap((child) => (child instanceof Node ? [child.name, ...child.names] : [])); }
}

function outputNeverBecomesMarkup() {
  globalThis.document = { createElement: (name) => new Node(name) };
  const nasty = 'x <img src=x onerror=alert(1)> <script>alert(1)</script> [a](javascript:alert(1))\n\n<svg onload=alert(1)>\n\n- <iframe srcdoc=x>';
  const parent = new Node('div');
  const growing = new GrowingText(parent);
  const kept = [];
  for (let length = 1; length <= nasty.length; length++) {
    growing.show(nasty.slice(0, length));
    kept.push(parent.children[0]);
  }
  const known = new Set(['p', 'ul', 'ol', 'li', 'pre', 'code', 'strong', 'em', 'h2', 'h3', 'h4', 'table', 'thead', 'tbody', 'tr', 'th', 'td']);
  for (const name of parent.names) assert.ok(known.has(name), `an element ${name}`);
  assert.ok(parent.text.includes('<img src=x onerror=alert(1)>'), 'text is shown as written');
  assert.strictEqual(kept[kept.length - 1], kept[kept.length - 20], 'a finished block keeps its element');
  growing.show('');
  assert.strictEqual(parent.children.length, 0);
}

function sourcesAreClean() {
  for (const name of ['index.html', 'app.js', 'stream.js', 'text.js', 'style.css']) {
    const source = readFileSync(new URL(name, web), 'utf8');
    assert.ok(!/innerHTML|outerHTML|insertAdjacent|document\.write|eval\(/.test(source), `${name} makes markup from text`);
    assert.ok(!/(https?:)?\/\/[a-z0-9.-]+\.[a-z]{2,}\//i.test(source), `${name} names another server`);
    if (name === 'index.html') assert.ok(!/<script(?![^>]*\bsrc=)|<style|\son[a-z]+=|\sstyle=/i.test(source), 'inline script or style');
  }
}

async function serverSendsIt(server) {
  const page = await fetch(`${server.url}/`);
  assert.strictEqual(page.status, 200);
  const policy = page.headers.get('content-security-policy') ?? '';
  assert.match(policy, /default-src 'self'/);
  assert.ok(!policy.includes('unsafe'), policy);
  assert.strictEqual(page.headers.get('x-content-type-options'), 'nosniff');
  const html = await page.text();
  const references = [...html.matchAll(/(?:src|href)="([^"]+)"/g)].map((match) => match[1]);
  assert.ok(references.length >= 3);
  for (const name of [...references, 'stream.js', 'text.js']) {
    const file = await fetch(new URL(name, `${server.url}/`));
    assert.strictEqual(file.status, 200, name);
    const type = file.headers.get('content-type');
    if (name.endsWith('.js')) assert.match(type, /javascript/);
    if (name.endsWith('.css')) assert.match(type, /css/);
    assert.strictEqual(await file.text(), readFileSync(new URL(name, web), 'utf8'), `${name} is not what the tree has`);
  }
}

eventsSurviveEveryCut();
blocksAreRecognised();
outputNeverBecomesMarkup();
sourcesAreClean();
if (k3) await withServer(k3, {}, serverSendsIt);
console.log('the page: all fine');
