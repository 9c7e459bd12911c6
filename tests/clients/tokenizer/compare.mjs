// compare.mjs K3 MODEL: `k3 tokenize` against npm tiktoken with K3's split rule. Exits non-zero on any difference.
import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Tiktoken } from 'tiktoken';
import { everyCodePoint, randomFrom, texts } from './texts.mjs';

const head = '[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}&&[^\\p{Han}]]';
const tail = '[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}&&[^\\p{Han}]]';
const contraction = "(?i:'s|'t|'re|'ve|'m|'ll|'d)?";
const splitRule = [
  '[\\p{Han}]+',
  `[^\\r\\n\\p{L}\\p{N}]?${head}*${tail}+${contraction}`,
  `[^\\r\\n\\p{L}\\p{N}]?${head}+${tail}*${contraction}`,
  '\\p{N}{1,3}',
  ' ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*',
  '\\s*[\\r\\n]+',
  '\\s+(?!\\S)',
  '\\s+',
].join('|');

const reservedCount = 256;

// What Python's str.isspace accepts.
const isSpace = (c) => /^[\s\u001c-\u001f\u0085]$/u.test(c) && c !== '\ufeff';

// The reference tokenizer's cuts: every 400,000 characters, and where a run of white space or of other characters exceeds 25,000.
function slices(text) {
  if (text.length <= 25_000) return [text];
  const characters = Array.from(text);
  const out = [];
  for (let window = 0; window < characters.length; window += 400_000) {
    const part = characters.slice(window, window + 400_000);
    let begin = 0, length = 0, space = isSpace(part[0]);
    part.forEach((c, i) => {
      const now = isSpace(c);
      if (now !== space) {
        length = 1;
        space = now;
      } else if (++length > 25_000) {
        out.push(part.slice(begin, i).join(''));
        begin = i;
        length = 1;
      }
    });
    out.push(part.slice(begin).join(''));
  }
  return out;
}

function reservedNames(model, first) {
  const named = JSON.parse(readFileSync(join(model, 'tokenizer_config.json'), 'utf8')).added_tokens_decoder;
  const names = {};
  for (let id = first; id < first + reservedCount; ++id) names[named[id]?.content ?? `<|reserved_token_${id}|>`] = id;
  return names;
}

function oracleOf(model) {
  const tokens = readFileSync(join(model, 'tiktoken.model'), 'utf8').split('\n').filter(Boolean).map((line) => line.split(' ')[0]);
  const names = reservedNames(model, tokens.length);
  const encoding = new Tiktoken(`! 0 ${tokens.join(' ')}`, names, splitRule);
  return {
    names: Object.keys(names),
    encode: (text, special) => slices(text).flatMap((slice) =>
      Array.from(special ? encoding.encode(slice, 'all') : encoding.encode_ordinary(slice))),
  };
}

function k3Ids(k3, model, inputs, special) {
  const input = inputs.map((text) => JSON.stringify(text)).join('\n') + '\n';
  const run = spawnSync(k3, ['tokenize', model, ...(special ? ['--special'] : [])], { input, maxBuffer: 2 ** 30, encoding: 'utf8' });
  if (run.error || run.status !== 0) {
    console.error(`k3 tokenize failed: ${run.error ?? `status ${run.status ?? run.signal}`}\n${run.stderr}`);
    process.exit(2);
  }
  return run.stdout.trimEnd().split('\n');
}

let compared = 0, different = 0;
function compare(k3, model, oracle, label, inputs, special = false) {
  const lines = k3Ids(k3, model, inputs, special);
  if (lines.length !== inputs.length) {
    console.error(`${label}: ${inputs.length} texts in, ${lines.length} lines out`);
    different += 1;
  }
  let here = 0;
  for (let i = 0; i < Math.min(lines.length, inputs.length); ++i) {
    const wanted = oracle.encode(inputs[i], special);
    const got = JSON.parse(lines[i]);
    ++compared;
    if (got.length === wanted.length && got.every((id, at) => id === wanted[at])) continue;
    ++different;
    if (++here > 5) continue;
    const at = wanted.findIndex((id, n) => id !== got[n]);
    console.error(`${label} ${i}: ${JSON.stringify(inputs[i]).slice(0, 200)}\n  at token ${at}: expected ${wanted.slice(at, at + 12)}\n` +
      `  got ${got.slice(at, at + 12)}`);
  }
  console.log(`${label}: ${inputs.length} texts, ${here} different`);
}

function specialTexts(names) {
  const random = randomFrom(7);
  const parts = ['message', ' role', '="', 'user', '<|', '|>', '<|open', ' ', '\n', "'s", '<', '[', '[EO', '中', 'é', '<|reserved_token_'];
  return Array.from({ length: 1000 }, () => Array.from({ length: 1 + random(15) }, () =>
    random(2) ? names[random(names.length)] : parts[random(parts.length)]).join(''));
}

// Where a piece ends shows in the ids only when bytes would have been joined across the place. With this vocabulary any two bytes
// are, so that hardly a boundary can be wrong unseen; the trained one has no joins at all in most scripts.
function writePairModel(folder) {
  const lines = [];
  for (let a = 0; a < 256; ++a) lines.push(Buffer.from([a]));
  for (let a = 0; a < 256; ++a) for (let b = 0; b < 256; ++b) lines.push(Buffer.from([a, (b * 7 + a) % 256]));
  writeFileSync(join(folder, 'tiktoken.model'), lines.map((bytes, rank) => `${bytes.toString('base64')} ${rank}\n`).join(''));
  const named = {};
  ['[EOS]', '<|end_of_msg|>', '<|open|>', '<|close|>', '<|sep|>'].forEach((content, i) => { named[lines.length + 1 + i] = { content }; });
  writeFileSync(join(folder, 'tokenizer_config.json'), JSON.stringify({ added_tokens_decoder: named }));
}

const [k3, model] = process.argv.slice(2);
if (!model) {
  console.error('usage: node compare.mjs K3 MODEL');
  process.exit(2);
}
const pairModel = mkdtempSync(join(tmpdir(), 'k3-pairs-'));
try {
  writePairModel(pairModel);
  const all = [...texts()];
  const codePoints = [...everyCodePoint()];
  for (const [name, folder] of [['model', model], ['pairs', pairModel]]) {
    const oracle = oracleOf(folder);
    compare(k3, folder, oracle, `${name}, texts`, all);
    compare(k3, folder, oracle, `${name}, reserved names as text`, specialTexts(oracle.names));
    compare(k3, folder, oracle, `${name}, reserved names recognised`, specialTexts(oracle.names), true);
    if (folder === pairModel) compare(k3, folder, oracle, `${name}, every code point`, codePoints);
  }
} finally {
  rmSync(pairModel, { recursive: true, force: true });
}
console.log(`${compared} texts compared, ${different} different`);
process.exit(different ? 1 : 0);
