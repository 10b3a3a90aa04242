// Writes what the original tokenizer says: golden.json (texts and their counts) and
// ../classes.txt (what its regular expressions take for letters, marks, numbers and blanks).
// Only needed to make those anew:
//
//	cd transform/tokens/testdata && npm install --no-save tiktoken@1.0.22 && node golden.mjs
//
// The npm package tiktoken is OpenAI's own Rust code compiled for JavaScript.
import { readFileSync, writeFileSync, readdirSync } from "node:fs";
import { createRequire } from "node:module";
const { Tiktoken, get_encoding } = createRequire(import.meta.url)("tiktoken");

const encodings = { cl100k: get_encoding("cl100k_base"), o200k: get_encoding("o200k_base") };
const count = (enc, text) => enc.encode(text, [], []).length; // "<|endoftext|>" in a text is text
const counts = (text) => Object.fromEntries(Object.entries(encodings).map(([name, enc]) => [name, count(enc, text)]));

// ---- classes.txt

// classes asks the regular expressions themselves: with a vocabulary of bytes alone and
// one class as the pattern, a character makes tokens exactly when it is in the class.
function classes() {
  const bytes = Array.from({ length: 256 }, (_, i) => Buffer.from([i]).toString("base64")).join(" ");
  const byName = { upper: "[\\p{Lu}\\p{Lt}]", lower: "\\p{Ll}", either: "[\\p{Lm}\\p{Lo}]", mark: "\\p{M}", number: "\\p{N}", space: "\\s" };
  const runs = [];
  for (const [name, pattern] of Object.entries(byName)) {
    const enc = new Tiktoken("! 0 " + bytes, {}, pattern);
    let start = -1;
    for (let c = 0; c <= 0x110000; c++) {
      const scalar = c < 0x110000 && (c < 0xd800 || c > 0xdfff);
      const inside = scalar && count(enc, String.fromCodePoint(c)) > 0;
      if (inside && start < 0) start = c;
      if (!inside && start >= 0) {
        runs.push([start, c - 1, name]);
        start = -1;
      }
    }
    enc.free();
  }
  return runs.sort((a, b) => a[0] - b[0]).map(([a, b, name]) => `${a.toString(16)} ${b.toString(16)} ${name}\n`).join("");
}
if (!process.argv.some((a) => a.endsWith("-only"))) writeFileSync("../classes.txt", classes());

// ---- golden.json

// With --counts-only, the texts stay, and are counted anew.
if (process.argv.includes("--counts-only")) {
  const texts = JSON.parse(readFileSync("golden.json", "utf8"));
  write(texts.map((t) => (t.base64 ? { ...t, clean: cleaned(Buffer.from(t.base64, "base64")) } : t)));
  process.exit();
}

function write(texts) {
  const lines = texts.map(({ clean, ...t }) => {
    const full = clean ?? t.text.repeat(t.times ?? 1);
    return JSON.stringify({ ...t, bytes: t.base64 ? undefined : Buffer.byteLength(full), ...counts(full) });
  });
  writeFileSync("golden.json", "[\n" + lines.join(",\n") + "\n]\n");
  console.log(`${lines.length} texts`);
}

// cleaned returns bytes as text, with one U+FFFD for each byte that is not UTF-8.
function cleaned(bytes) {
  const decode = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
  let text = "";
  for (let i = 0, n; i < bytes.length; i += n) {
    let char = "\ufffd";
    for (n = 1; n <= 4; n++) {
      try {
        char = decode.decode(bytes.subarray(i, i + n));
        break;
      } catch {}
    }
    text += char;
    if (n > 4) n = 1;
  }
  return text;
}

let seed = 20260728; // mulberry32: the same texts every time
function random() {
  seed = (seed + 0x6d2b79f5) | 0;
  let t = Math.imul(seed ^ (seed >>> 15), 1 | seed);
  t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
  return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
}
const below = (n) => Math.floor(random() * n);
const pick = (list) => list[below(list.length)];
const many = (lo, hi, f) => Array.from({ length: lo + below(hi - lo + 1) }, f);
const between = (lo, hi) => () => String.fromCodePoint(lo + below(hi - lo + 1));

const files = (dir, end) => readdirSync(dir).filter((f) => f.endsWith(end)).sort().map((f) => readFileSync(`${dir}/${f}`, "utf8"));
const code = [...files("../../../translate/wire", ".go"), ...files("../../../translate", ".go"), readFileSync("golden.mjs", "utf8")];
const prose = [readFileSync("../../../LICENSE", "utf8"), ...files("../../..", ".md")];
const excerpt = (texts, n) => () => {
  const chars = Array.from(pick(texts));
  const at = below(Math.max(1, chars.length - n));
  return chars.slice(at, at + 1 + below(n)).join("");
};

const languages = [
  "Der Überwachungsausschuß prüft größere Änderungen an den Straßenverhältnissen; „natürlich“ gegen Gebühr.",
  "L'élève n'a pas reçu l'œuvre d'été qu'il avait commandée à Noël — c'est-à-dire jamais, n'est‑ce pas ?",
  "El niño pingüino soñó con jalapeños: ¿dónde está mañana el camión? ¡Qué vergüenza!",
  "Съешь же ещё этих мягких французских булок, да выпей чаю. Подъезд №7, объявление.",
  "Ξεσκεπάζω την ψυχοφθόρα βδελυγμία. Ο Σίσυφος και οι ΆΛΛΟΙ.",
  "İstanbul'da ığdır şöförü çığlık attı; IĞDIR ŞOFÖRÜ.",
  "Zażółć gęślą jaźń. Příliš žluťoučký kůň úpěl ďábelské ódy. ǅungla ǈubav ǋegoš",
  "我能吞下玻璃而不伤身体。北京欢迎你，今天天气很好，我们去公园散步吧！「你好」《红楼梦》",
  "私はガラスを食べられます。それは私を傷つけません。ヘルシンキのｶﾀｶﾅと全角ＡＢＣ１２３。々〻ー",
  "나는 유리를 먹을 수 있어요. 그래도 아프지 않아요. 대한민국 서울특별시 ㄱㄴㄷ",
  "أنا قادر على أكل الزجاج و هذا لا يؤلمني. السَّلَامُ عَلَيْكُمْ ١٢٣٤٥ ـــ",
  "אני יכול לאכול זכוכית וזה לא מזיק לי. שָׁלוֹם עֲלֵיכֶם",
  "मैं काँच खा सकता हूँ और मुझे उससे कोई चोट नहीं पहुंचती. क्षत्रिय १२३४",
  "நான் கண்ணாடி சாப்பிடுவேன், அதனால் எனக்கு ஒரு கேடும் வராது. ௧௨௩",
  "ฉันกินกระจกได้ แต่มันไม่ทำให้ฉันเจ็บ ๑๒๓ ภาษาไทยไม่มีเว้นวรรค",
  "Tôi có thể ăn thủy tinh mà không hại gì. Người Việt Nam đi chợ buổi sáng.",
  "ქართული ანბანი ႠႡႢ ᲐᲑᲒ აბგ. Հայերեն այբուբեն ԱԲԳ",
  "ᏣᎳᎩ ꮳꮃꭹ ᚠᛇᚻ ⰀⰁⰂ ⰰⰱⰲ 𐐀𐐁𐐨𐐩 𝒜𝓑𝔠𝕯 𝟘𝟙𝟚 ǅ ǈ ᾈ ʰʷʸ ªº",
];
const emoji = ["😀", "🎉", "❤️", "👍🏽", "👨‍👩‍👧‍👦", "🏳️‍🌈", "🇩🇪", "🇺🇳", "1️⃣", "#️⃣", "🧑🏿‍🚀", "☺", "⚠️", "✂︎", "🫠", "🪿", "©️"];
const marks = ["\u0301", "\u0308", "\u20e3", "\u0327", "\u0489", "\u0e49", "\u093f", "\u05b8", "\u064e", "\ufe0f", "\ufe20", "\u{1d165}", "\u0488"];
const spaces = [" ", " ", " ", "\t", "\n", "\r", "\r\n", "\v", "\f", "\u0085", "\u00a0", "\u1680", "\u2003", "\u2028", "\u2029", "\u202f", "\u3000"];
const notSpaces = ["\u180e", "\u200b", "\u200d", "\ufeff", "\u2060", "\u001c", "\u001f", "\u0000", "\u007f"];
const words = ["the", "Request", "HTTPServer", "getElementById", "naïve", "ÉCOLE", "Straße", "foo_bar", "x", "I", "iPhone", "McDonald", "ABCdefGHI", "中文ABC", "ABC中文def", "ǅabc", "éÉé", "don't"];
const tails = ["'s", "'S", "'t", "'re", "'RE", "'Ve", "'m", "'ll", "'lL", "'d", "'D", "'ſ", "'x", "'", "''", "'r", "'l", "'v", "’s", "'s's", "'llama", "'rest", "'mm", "'1"];
const punctuation = Array.from("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~§«»–—…“”‘’€£¥°±×÷→⇒∀∑√∞≠■□●★♠✓\u00ad");
const anything = [
  between(0x20, 0x7e), between(0x20, 0x7e), between(0x20, 0x7e), between(0, 0x7f), between(0x80, 0x24f), between(0x250, 0x52f), between(0x300, 0x36f),
  between(0x590, 0x6ff), between(0x900, 0xdff), between(0x1c80, 0x1fff), between(0x2000, 0x2bff), between(0x3000, 0x30ff), between(0x4e00, 0x9fff),
  between(0xa640, 0xabff), between(0xac00, 0xd7a3), between(0xe000, 0xfffd), between(0x10000, 0x10fff), between(0x10d40, 0x10d8f), between(0x1d100, 0x1d7ff),
  between(0x1f300, 0x1faff), between(0x20000, 0x2a6df), between(0xe0000, 0xe01ef), () => pick(spaces), () => pick(spaces), () => pick(marks), () => pick(words), () => pick(tails),
];

function value(depth) {
  switch (below(depth > 3 ? 5 : 8)) {
    case 0: return below(2) ? below(1000) : random() * 10 ** below(20);
    case 1: return pick([null, true, false, "", [], {}]);
    case 2: return excerpt(prose, 120)();
    case 3: return `${pick(words)}-${below(10000)}`;
    case 4: return new Date(1.7e12 + below(1e11)).toISOString();
    case 5: return many(0, 6, () => value(depth + 1));
    default: return Object.fromEntries(many(0, 6, () => [pick(words) + pick(["", "_id", "Key", " name", ".x"]), value(depth + 1)]));
  }
}
const bytes = (n) => Buffer.from(many(1, n, () => below(256)));
const pieces = (lo, hi, ...lists) => () => many(lo, hi, () => pick(pick(lists))).join("");

const kinds = {
  code: [320, excerpt(code, 1200)],
  prose: [200, excerpt(prose, 900)],
  languages: [160, () => many(1, 4, excerpt(languages, 90)).join(pick([" ", "", "\n", "  "]))],
  json: [120, () => JSON.stringify(value(0), null, pick([undefined, undefined, 2, "\t"]))],
  base64: [60, () => bytes(600).toString("base64")],
  hex: [20, () => bytes(200).toString("hex")],
  digits: [60, () => many(1, 20, () => String(below(10 ** (1 + below(14))))).join(pick(["", " ", ",", ".", "٣", "Ⅷ", "½", "\n"]))],
  whitespace: [160, pieces(1, 24, spaces)],
  "whitespace among text": [160, pieces(1, 24, spaces, spaces, ["x", "A", "7", "!", "é", "中", "\u0301", "'s", "/"])],
  "almost whitespace": [50, pieces(1, 16, notSpaces, spaces, ["a", "1", "."])],
  emoji: [90, pieces(1, 30, emoji, emoji, [" ", "a", "\n", "!"])],
  "combining marks": [110, pieces(1, 30, marks, words, ["a", "B", "中", " ", "1", "!", "\n"])],
  contractions: [130, pieces(1, 12, words, tails, [" ", "", "\n", "  "])],
  "letter case": [80, pieces(1, 20, ["A", "b", "ǅ", "ʰ", "中", "\u0301", "É", "ß", "Ω", "ω", "Ⴀ", "ა", "Ა"], ["A", "B", "c"])],
  punctuation: [80, pieces(1, 40, punctuation, punctuation, [" ", "\n", "\r\n", "/", "//", "a", "9"])],
  anything: [180, () => many(1, 60, () => pick(anything)()).join("")],
};

const texts = [];
for (const [kind, [n, make]] of Object.entries(kinds)) for (let i = 0; i < n; i++) texts.push({ kind, text: make() });

// By hand: the places where tokenizers are known to differ, and special tokens, which are plain text here.
for (const text of ["", " ", "\n", "a", "\u007f", "a\u007fb", "\u007f\u007f\u007f x", " \n \n x", "\n\n \n", " \r\n\t\n\n  x", "\u00a0\n\u2003\nx", "<|endoftext|>", "<|fim_prefix|> x", "<|endofprompt|>",
  "'ſ", "a'ſb", "'ſtill", "K", "\u1c89\u1c8a", "a\u{10d40}\u{10d50}", "\u{10d40}\u{10d41}\u{10d42}\u{10d43}", "\u0897x"]) texts.push({ kind: "by hand", text });

// Long: one unit, many times over.
for (const [unit, times] of [["a", 40000], ["=", 20000], [" ", 20000], ["\n", 20000], [" \n", 20000], ["ab", 9000], ["A", 9000], ["Ab", 9000], ["0", 9000], ["中", 5000], ["é", 5000], ["\u0301", 5000], ["😀", 3000],
  ["\u00a0", 4000], ["\t", 9000], ["-", 9000], ["_", 9000], ["/\n", 3000], ["\u007f", 3000], ["你好", 3000], ["xyz", 5000], ["lorem", 3000], ["x ", 5000], ["'s", 3000], ["\r\n", 5000], ["中A", 3000], ["A\u0301", 3000]])
  texts.push({ kind: "long run", text: unit, times });
for (let i = 0; i < 9; i++) texts.push({ kind: "long word", text: many(3000, 6000, () => pick(Array.from("etaoinshrdlu"))).join("") });
for (let i = 0; i < 4; i++) texts.push({ kind: "long word", text: many(1000, 2000, between(0x4e00, 0x9fff)).join("") });
for (let i = 0; i < 4; i++) texts.push({ kind: "long word", text: many(1000, 2000, () => pick(Array.from("=-_#*"))).join("") });

// Bytes that are no UTF-8: each counts as one U+FFFD.
const bad = [[0xff], [0x80], [0xc0], [0xc3], [0xe4, 0xb8], [0xed, 0xa0, 0x80], [0xf0, 0x9f, 0x98], [0xf5], [0xf8, 0x88], [0xc0, 0xaf]];
for (let i = 0; texts.length < 2000 || i < 20; i++) {
  const raw = [], clean = [];
  for (const part of many(1, 12, () => pick([pick(words), " ", "\n", "7", "é!", "中.", pick(bad), pick(bad)]))) {
    if (typeof part === "string") {
      raw.push(Buffer.from(part));
      clean.push(part);
    } else {
      raw.push(Buffer.from(part), Buffer.from(" ")); // the blank keeps a lead byte from finding a tail
      clean.push("\ufffd".repeat(part.length), " ");
    }
  }
  texts.push({ kind: "not UTF-8", base64: Buffer.concat(raw).toString("base64"), clean: clean.join("") });
}

write(texts);
