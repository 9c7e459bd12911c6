// The little markdown that answers use, as elements. Whatever the model writes becomes text nodes: there is no way from its output to
// markup, a script or an address that the browser would load. Links stay the text they are.

const fence = /^\s{0,3}(```+|~~~+)\s*([\w+-]*)\s*$/;
const heading = /^(#{1,6})\s+(.*)$/;
const bullet = /^\s*[-*+]\s+(.*)$/;
const numbered = /^\s*\d{1,9}[.)]\s+(.*)$/;
const rule = /^\s*\|?\s*:?-+:?\s*(\|\s*:?-+:?\s*)*\|?\s*$/;

function cells(line) {
  return line.trim().replace(/^\|/, '').replace(/\|$/, '').split('|').map((cell) => cell.trim());
}

function takeWhile(lines, from, pattern) {
  const items = [];
  for (let i = from; i < lines.length; i++) {
    const match = pattern.exec(lines[i]);
    if (!match) break;
    items.push(match[1]);
  }
  return items;
}

function codeBlock(lines, from, opened) {
  const body = [];
  let i = from + 1;
  for (; i < lines.length; i++) {
    const closing = fence.exec(lines[i]);
    if (closing && closing[2] === '' && closing[1].startsWith(opened[1])) break;
    body.push(lines[i]);
  }
  // Without a closing fence the answer is still being written: the block is open to the end.
  return { block: { kind: 'code', language: opened[2], text: body.join('\n') }, next: i + 1 };
}

function tableBlock(lines, from) {
  const rows = [];
  let i = from + 2;
  for (; i < lines.length && lines[i].includes('|'); i++) rows.push(cells(lines[i]));
  return { block: { kind: 'table', head: cells(lines[from]), rows }, next: i };
}

function listBlock(lines, from, pattern, kind) {
  const items = takeWhile(lines, from, pattern);
  return { block: { kind, items }, next: from + items.length };
}

function startsBlock(lines, i) {
  if (fence.test(lines[i]) || heading.test(lines[i]) || bullet.test(lines[i]) || numbered.test(lines[i])) return true;
  return lines[i].includes('|') && i + 1 < lines.length && lines[i + 1].includes('-') && rule.test(lines[i + 1]);
}

function nextBlock(lines, i) {
  const opened = fence.exec(lines[i]);
  if (opened) return codeBlock(lines, i, opened);
  const title = heading.exec(lines[i]);
  if (title) return { block: { kind: 'heading', level: title[1].length, text: title[2] }, next: i + 1 };
  if (bullet.test(lines[i])) return listBlock(lines, i, bullet, 'bullets');
  if (numbered.test(lines[i])) return listBlock(lines, i, numbered, 'numbers');
  if (startsBlock(lines, i)) return tableBlock(lines, i);
  let end = i + 1;
  while (end < lines.length && lines[end].trim() !== '' && !startsBlock(lines, end)) end++;
  return { block: { kind: 'paragraph', text: lines.slice(i, end).join('\n') }, next: end };
}

// The blocks of a text, as plain data.
export function blocksOf(source) {
  const lines = source.split('\n');
  const blocks = [];
  for (let i = 0; i < lines.length;) {
    if (lines[i].trim() === '') {
      i++;
      continue;
    }
    const { block, next } = nextBlock(lines, i);
    blocks.push(block);
    i = next;
  }
  return blocks;
}

// `code`, **bold**, *slanted*; everything else as written.
export function spansOf(text) {
  const spans = [];
  const pattern = /(`+)([^`]+)\1|\*\*([^*]+)\*\*|\*([^*\s](?:[^*]*[^*\s])?)\*/g;
  let from = 0;
  for (const match of text.matchAll(pattern)) {
    if (match.index > from) spans.push({ kind: 'text', text: text.slice(from, match.index) });
    if (match[2] !== undefined) spans.push({ kind: 'code', text: match[2] });
    else if (match[3] !== undefined) spans.push({ kind: 'strong', text: match[3] });
    else spans.push({ kind: 'em', text: match[4] });
    from = match.index + match[0].length;
  }
  if (from < text.length) spans.push({ kind: 'text', text: text.slice(from) });
  return spans;
}

function element(name, children) {
  const node = document.createElement(name);
  node.append(...children);
  return node;
}

function inline(name, text) {
  return element(name, spansOf(text).map((span) => (span.kind === 'text' ? span.text : element(span.kind, [span.text]))));
}

function render(block) {
  switch (block.kind) {
    case 'code': return element('pre', [element('code', [block.text])]);
    case 'heading': return inline(`h${Math.min(block.level + 1, 4)}`, block.text);
    case 'bullets': return element('ul', block.items.map((item) => inline('li', item)));
    case 'numbers': return element('ol', block.items.map((item) => inline('li', item)));
    case 'table': {
      const head = element('tr', block.head.map((cell) => inline('th', cell)));
      const rows = block.rows.map((row) => element('tr', row.map((cell) => inline('td', cell))));
      return element('table', [element('thead', [head]), element('tbody', rows)]);
    }
    default: return inline('p', block.text);
  }
}

// Shows a growing text in `parent`. Blocks that have not changed keep their elements: a long answer costs per token what its last
// block costs, and what the reader has marked stays marked.
export class GrowingText {
  #parent;
  #shown = [];

  constructor(parent) {
    this.#parent = parent;
  }

  show(source) {
    const blocks = blocksOf(source).map((block) => ({ block, key: JSON.stringify(block) }));
    let same = 0;
    while (same < blocks.length && same < this.#shown.length && blocks[same].key === this.#shown[same].key) same++;
    for (const old of this.#shown.splice(same)) old.node.remove();
    for (const { block, key } of blocks.slice(same)) {
      const node = render(block);
      this.#parent.append(node);
      this.#shown.push({ key, node });
    }
  }
}
