// The texts of the comparison: sentences in many scripts, words made of every script's letters, and strings made of nothing but the
// characters on which the split rule turns. Deterministic.

// A small generator of its own (xorshift32): the texts must be the same on every run.
export function randomFrom(seed) {
  let state = seed >>> 0 || 1;
  return (limit) => {
    state ^= state << 13;
    state >>>= 0;
    state ^= state >>> 17;
    state ^= state << 5;
    state >>>= 0;
    return state % limit;
  };
}

const sentences = [
  "It's 9 o'clock; we've been told they'll SHOUT \"DON'T!\" twice — I'd rather not.",
  'Der Süßwasserfisch kostet 12,50 €, nicht 1.250,00 €. STRASSE oder Straße?',
  "L'été dernier, j'ai vu Œuvres complètes à 19h30 ; c'était génial !",
  '¿Dónde está el baño? ¡Allí, señor Muñoz! 3º piso.',
  'Съешь же ещё этих мягких французских булок, да выпей чаю. 2024 год.',
  'Ξεσκεπάζω την ψυχοφθόρα βδελυγμία — ΟΔΥΣΣΕΥΣ και ὈΔΥΣΣΕΎΣ.',
  'שלום עולם, מה שלומך היום? בְּרֵאשִׁית בָּרָא אֱלֹהִים',
  'مرحبا بالعالم، كيف حالك؟ ٣٫١٤ و ٢٠٢٤ السَّلَامُ عَلَيْكُمْ',
  'नमस्ते दुनिया! हम १२३ किताबें पढ़ते हैं।',
  'ওহে বিশ্ব, তুমি কেমন আছো? ৪৫৬ টাকা।',
  'வணக்கம் உலகம், எப்படி இருக்கிறீர்கள்? ௧௨௩',
  'ప్రపంచానికి నమస్కారం, మీరు ఎలా ఉన్నారు?',
  'สวัสดีชาวโลก วันนี้อากาศดีมาก ๑๒๓ บาท',
  'ສະບາຍດີຊາວໂລກ ມື້ນີ້ອາກາດດີ',
  'မင်္ဂလာပါ ကမ္ဘာလောက၊ နေကောင်းလား။',
  'សួស្តីពិភពលោក តើអ្នកសុខសប្បាយទេ?',
  'გამარჯობა მსოფლიო! ᲒᲐᲛᲐᲠᲯᲝᲑᲐ 123',
  'Բարեւ աշխարհ, ինչպե՞ս ես։ ԲԱՐԵՎ',
  'ሰላም ዓለም፣ እንዴት ነህ? ፩፪፫',
  '你好,世界!今天是2024年1月2日,〇一二三,々〆ヶ。',
  '吾輩は猫である。名前はまだ無い。カタカナ、ひらがな、ー、々、㍿。',
  '안녕하세요 세계! 오늘은 2024년 1월 2일입니다. ㄱㄴㄷ',
  'སྐད་ཡིག་ནི་མི་རིགས་ཀྱི་སྲོག་རེད། ༡༢༣',
  'ᏣᎳᎩ ꮳꮃꭹ ᎦᏬᏂᎯᏍᏗ',
  'සිංහල භාෂාව ශ්‍රී ලංකාවේ',
  'ಕನ್ನಡ ಭಾಷೆ ೧೨೩', 'മലയാളം ഭാഷ ൧൨൩', 'ગુજરાતી ભાષા ૧૨૩', 'ਪੰਜਾਬੀ ਭਾਸ਼ਾ ੧੨੩',
  'ᠮᠣᠩᠭᠣᠯ ᠪᠢᠴᠢᠭ', 'ⵜⴰⵎⴰⵣⵉⵖⵜ', '𐐀𐐁𐐨𐐩 𝐇𝐞𝐥𝐥𝐨 𝟙𝟚𝟛 𠀀𠀁',
  '👩‍👩‍👧‍👦 👍🏽 🇩🇪 ❤️ 1️⃣ ♻︎',
  'for (int i = 0; i < n; ++i) {\r\n\tsum += a[i] * 0x1F; // don\'t\r\n}\r\n\r\n',
  '{"name": "x_1", "values": [1, 2.5e-10, null, true],\n  "nested": {"a\\n": "\\u00e9"}}',
  '| a | b |\n|---|---|\n| 1   | 22    |\n\n\n# Heading\n\n* item\n  * sub   \n',
  'https://example.org/a/b?c=d&e=%20f#g mail@example.org 192.168.0.1:8080',
  'SELECT * FROM t WHERE x >= 10 AND y LIKE \'%_z\';  -- ok',
  '$$\\int_0^\\infty e^{-x^2}\\,dx = \\frac{\\sqrt{\\pi}}{2}$$ ½ ⅔ x² Ⅷ ⅷ',
  'ÀÁÂ àáâ A\u0301e\u0301 \u0301\u0302 ǅungla ǈ ʰʷ ªº ﬁ ſt DON\u2019T don\u2019t it\'\u017f',
];

// First and last code point of stretches of letters and digits, by script.
const scripts = [
  [0x61, 0x7a], [0x41, 0x5a], [0xc0, 0x17f], [0x391, 0x3c9], [0x410, 0x44f], [0x531, 0x587], [0x5d0, 0x5ea], [0x620, 0x669],
  [0x710, 0x74a], [0x904, 0x96f], [0x985, 0x9ef], [0xa05, 0xa74], [0xa85, 0xaef], [0xb05, 0xb77], [0xb85, 0xbf2], [0xc05, 0xc6f],
  [0xc85, 0xcef], [0xd05, 0xd78], [0xd85, 0xdf4], [0xe01, 0xe59], [0xe81, 0xedf], [0xf00, 0xf6c], [0x1000, 0x1049], [0x10a0, 0x10ff],
  [0x1200, 0x137c], [0x13a0, 0x13f5], [0x1780, 0x17e9], [0x1820, 0x1878], [0x2c80, 0x2cff], [0x2e80, 0x2fd5], [0x3005, 0x3007],
  [0x3021, 0x303b], [0x3041, 0x30ff], [0x3105, 0x312f], [0x4e00, 0x9fff], [0xa000, 0xa48c], [0xac00, 0xd7a3], [0xf900, 0xfaff],
  [0xff10, 0xff9f], [0x10400, 0x1044f], [0x16fe0, 0x16ff1], [0x1d400, 0x1d7ff], [0x1f300, 0x1f64f], [0x20000, 0x2a6df],
];

// What the alternatives turn on: case, marks, modifier letters, Han that is not a letter, digits of several kinds, apostrophes,
// every sort of white space and what only looks like it.
const turning = [
  'a', 'z', 's', 't', 'A', 'Z', 'S', 'É', 'é', 'ß', 'ǅ', 'ʰ', 'ª', 'º', 'ſ', 'א', 'ก', '\u0301', '\u0903', '\u20dd', '中', '々', '〇',
  '⺀', '\u{16ff0}', '\u{16fe2}', '\u{20000}', '1', '23', '456', '٣', 'Ⅷ', '½', '²', '\'', '\'s', '\'S', '\'re', '\'LL', '\'ſ', '\'d',
  '\u2019', '!', '.', '_', '$', '🙂', '\u200d', '\u200b', '\ufeff', '\u0000', '\u001c', '\u001f', '\u0085', ' ', '  ', '\t', '\n',
  '\r', '\r\n', '\u00a0', '\u2003', '\u2028', '\u3000', '\v', '\f', '\u180e', '\ue000', '\u{10ffff}', '\ufffd',
];

function* scriptTexts(random, count) {
  for (let i = 0; i < count; ++i) {
    let text = '';
    for (let word = 1 + random(12); word > 0; --word) {
      const [first, last] = scripts[random(3) ? i % scripts.length : random(scripts.length)];
      for (let letter = 1 + random(9); letter > 0; --letter) text += String.fromCodePoint(first + random(last - first + 1));
      text += [' ', ' ', ' ', ', ', '. ', '', '\n', '  ', '-', "'s "][random(10)];
    }
    yield text;
  }
}

function* mixedTexts(random, count) {
  for (let i = 0; i < count; ++i) {
    const pool = 2 + random(turning.length - 1);
    let text = '';
    for (let n = 1 + random(40); n > 0; --n) text += turning[random(3) ? random(pool) : random(turning.length)];
    yield text;
  }
}

function* anyTexts(random, count) {
  for (let i = 0; i < count; ++i) {
    let text = '';
    for (let n = 1 + random(40); n > 0; --n) {
      const code = random(random(2) ? 0x3000 : 0x110000);
      text += code >= 0xd800 && code < 0xe000 ? ' ' : String.fromCodePoint(code);
    }
    yield text;
  }
}

// Long runs: one kind of character over and over, around the limits at which the reference cuts a text, and beyond.
function* longTexts() {
  for (const unit of ['a', 'A', ' ', '\n', '\t', "'", '中', '\u0301', '!', '1', 'ab', ' a', "a'", "'s", ' \n', 'Aa', 'aA', '🙂', '\u001c']) {
    yield unit.repeat(3000);
    yield `x${unit.repeat(700)}y`;
  }
  // The oracle's own merging is quadratic in a piece: hence few of the full length.
  for (const length of [25_000, 25_001, 50_001]) {
    yield 'a'.repeat(length);
    yield `b${' '.repeat(length)}c`;
    yield `b${'\u001c'.repeat(length)}c`;
    yield `${' \u001c\n\u3000'.repeat(length / 4 + 1).slice(0, length)}c`;
    yield `${'1 '.repeat(20)}${'12'.repeat(length).slice(0, length)}`;
  }
  yield `b ${'é'.repeat(25_000)} c`;
  yield '🙂1'.repeat(12_501);
  for (const length of [399_999, 400_000, 400_001]) {
    yield 'ab cd '.repeat(70_000).slice(0, length);
    yield 'ab  '.repeat(101_000).slice(0, length);
  }
  yield '🙂 '.repeat(200_001);
}

export function* texts() {
  yield '';
  yield* sentences;
  for (const first of sentences) yield first.toUpperCase() + sentences.at(-1) + first.toLowerCase();
  for (const a of turning) for (const b of turning) yield a + b;
  const random = randomFrom(2024);
  yield* scriptTexts(random, 2000);
  yield* mixedTexts(random, 6000);
  yield* anyTexts(random, 2000);
  yield* longTexts();
}

// Every code point in company: a difference in any property of it moves a boundary in one of these places. The planes that hold
// nothing assigned get the first of them only.
export function* everyCodePoint() {
  const perText = 128;
  for (let start = 0; start < 0x110000; start += perText) {
    const plane = start >> 16;
    let text = '';
    for (let code = start; code < start + perText; ++code) {
      if (code >= 0xd800 && code < 0xe000) continue;
      const c = String.fromCodePoint(code);
      text += `a${c}b A${c}B `;
      if (plane < 4 || plane === 14) text += ` ${c} ${c}${c}1${c}2中${c}!${c}\n${c}a'${c}`;
    }
    if (text) yield text;
  }
}
