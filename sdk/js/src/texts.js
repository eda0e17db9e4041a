/**
 * Keys that nobody listed: a text as bits, by a public code.
 *
 * Every byte of a text, and a terminator behind the last, is a word of bits. Words come from a table of lengths, or
 * from several, by the byte before: lengths make the words, in canonical order. A key is told by its first `longest`
 * bits; of what does not end within them the whole letters that fit are known, followed by an ellipsis.
 *
 * Letters that nobody sees or that turn others around are written out before they become bits.
 */
import { isObject, isWhole } from "./checks.js";
import { toUtf8 } from "./numerics/bytes.js";

/** What stands for every key that is not named, and behind what is cut. */
export const ELLIPSIS = "\u2026";
export const MOST_BITS = 512;
const LEAST_BITS = 2;
const LONGEST_WORD = 26;
const MOST_TABLES = 257;
const END = 0;
const LENGTHS = /^[a-z]{256}$/;
const AFTER = /^(?:|0[1-9a-f]|[1-9a-f][0-9a-f])$/;

/** First and last of the letters that are written out; the same as in Python. */
const HIDDEN = [
  [0x00, 0x1f],
  [0x7f, 0x9f],
  [0xad, 0xad],
  [0x34f, 0x34f],
  [0x61c, 0x61c],
  [0x115f, 0x1160],
  [0x17b4, 0x17b5],
  [0x180b, 0x180f],
  [0x200b, 0x200f],
  [0x2028, 0x202e],
  [0x2060, 0x206f],
  [0x3164, 0x3164],
  [0xd800, 0xdfff],
  [0xfe00, 0xfe0f],
  [0xfeff, 0xfeff],
  [0xffa0, 0xffa0],
  [0xfff0, 0xfffb],
  [0x1bca0, 0x1bca3],
  [0x1d173, 0x1d17a],
  [0xe0000, 0xe0fff],
];

/** @param {string} letter */
function shown(letter) {
  const point = letter.codePointAt(0) ?? 0;
  return HIDDEN.some(([first, last]) => first <= point && point <= last) ? `\\u{${point.toString(16)}}` : letter;
}

/**
 * The text with every letter that nobody would see written out.
 *
 * @param {string} text
 */
export const visible = (text) => Array.from(text, shown).join("");

/**
 * Whether a value is a number of bits by which a key may be told.
 *
 * @param {unknown} longest
 * @returns {longest is number}
 */
export const isLongest = (longest) => isWhole(longest, LEAST_BITS, MOST_BITS);

/**
 * Whether a value gives lengths of words by the byte before, each table a complete code.
 *
 * @param {unknown} tables
 * @returns {tables is Record<string, string>}
 */
export function isCode(tables) {
  if (!isObject(tables) || !Object.hasOwn(tables, "")) return false;
  const entries = Object.entries(tables);
  return entries.length <= MOST_TABLES && entries.every(([after, lengths]) => AFTER.test(after) && isTable(lengths));
}

/** @param {unknown} lengths */
function isTable(lengths) {
  if (typeof lengths !== "string" || !LENGTHS.test(lengths)) return false;
  return bitsOf(lengths).reduce((sum, bits) => sum + 2 ** (LONGEST_WORD - bits), 0) === 2 ** LONGEST_WORD;
}

/** @param {string} lengths */
const bitsOf = (lengths) => Array.from(lengths, (letter) => letter.charCodeAt(0) - 96);

/**
 * The words of a table: each byte's, as a number and its length; shorter ones first, then by byte.
 *
 * @param {string} lengths
 */
function wordsOf(lengths) {
  const bits = bitsOf(lengths);
  const order = [...bits.keys()].sort((a, b) => bits[a] - bits[b] || a - b);
  /** @type {{ word: bigint, length: number }[]} */
  const words = [];
  let word = 0n;
  let before = 0;
  for (const byte of order) {
    word <<= BigInt(bits[byte] - before);
    before = bits[byte];
    words[byte] = { word, length: before };
    word += 1n;
  }
  return words;
}

const PLAIN = "h".repeat(256);

/** Texts as numbers of so many bits. */
export class TextCode {
  #longest;
  #tables;

  /**
   * @param {number} longest
   * @param {Record<string, string>} [tables]
   */
  constructor(longest, tables = { "": PLAIN }) {
    this.#longest = longest;
    this.#tables = new Map(Object.entries(tables).map(([after, lengths]) => [after, wordsOf(lengths)]));
  }

  /**
   * The first bits of a text, zeros behind its end, and the name by which it is known.
   *
   * @param {string} text
   */
  read(text) {
    const longest = this.#longest;
    let [bits, length, before, name] = [0n, 0, END, ""];
    const add = (/** @type {number} */ byte) => {
      const words = this.#tables.get(byteText(before)) ?? this.#tables.get("") ?? [];
      bits = (bits << BigInt(words[byte].length)) | words[byte].word;
      length += words[byte].length;
      before = byte;
    };
    for (const letter of visible(text)) {
      toUtf8(letter).forEach(add);
      if (length > longest) return { bits: bits >> BigInt(length - longest), name: name + ELLIPSIS };
      name += letter;
    }
    add(END);
    if (length > longest) return { bits: bits >> BigInt(length - longest), name: name + ELLIPSIS };
    return { bits: bits << BigInt(longest - length), name };
  }
}

/** @param {number} byte */
const byteText = (byte) => byte.toString(16).padStart(2, "0");
