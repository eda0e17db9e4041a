/**
 * Crossings: what is asked about of a record, where that is more than its keys (Python: `domain.crossing`).
 *
 * A crossing turns a record into one over other keys, before any noise: keys and pairs of keys that one person holds,
 * or keys by the segment that a person belongs to.
 */
import { demand } from "./checks.js";
import { FULL_LEVEL } from "./records.js";

/** @import { Crossing, Pair } from "../index.d.ts" */

const MOST_PAIRED_KEYS = 64;
const MOST_PAIRS = (MOST_PAIRED_KEYS * (MOST_PAIRED_KEYS - 1)) / 2;
const MOST_CROSSED_KEYS = 2 ** 17;
const ALL = "all";

/**
 * Whether a value is what a canonical text says of pairs.
 *
 * @param {unknown} said
 */
export function isPairs(said) {
  return said === ALL || (Array.isArray(said) && said.every((name) => typeof name === "string"));
}

/**
 * Keys and pairs of keys: a code a key that occurs, then two a pair, with the value of either.
 *
 * @param {string | string[]} said "all", or the names of every pair one after the other
 * @param {ReadonlyMap<string, number>} codes
 * @returns {Crossing}
 */
export function pairsOf(said, codes) {
  const held = said === ALL ? allPairs(codes.size) : listedPairs(/** @type {string[]} */ (said), codes);
  const keys = [...new Set(held.flat())].sort((a, b) => a - b);
  return {
    nCodes: keys.length + 2 * held.length,
    of(record) {
      const levels = new Map(record.map(({ code, level }) => [code, level]));
      const alone = keys.map((key, code) => ({ code, level: levels.get(key) }));
      const together = held.flatMap(([a, b], number) => {
        const [first, second] = [levels.get(a), levels.get(b)];
        const code = keys.length + 2 * number;
        const isHeld = first !== undefined && second !== undefined;
        return isHeld
          ? [
              { code, level: first },
              { code: code + 1, level: second },
            ]
          : [];
      });
      return /** @type {Pair[]} */ ([...alone.filter(({ level }) => level !== undefined), ...together]);
    },
  };
}

/**
 * Every two of so many codes, the smaller first, in ascending order.
 *
 * @param {number} nKeys
 */
function allPairs(nKeys) {
  demand(2 <= nKeys && nKeys <= MOST_PAIRED_KEYS);
  const codes = Array.from({ length: nKeys }, (_, code) => code);
  return codes.flatMap((a) => codes.slice(a + 1).map((b) => [a, b]));
}

/**
 * @param {string[]} names
 * @param {ReadonlyMap<string, number>} codes
 */
function listedPairs(names, codes) {
  demand(names.length % 2 === 0 && 2 <= names.length && names.length <= 2 * MOST_PAIRS);
  const found = names.map((name) => codes.get(name) ?? -1);
  demand(found.every((code) => code >= 0));
  const held = Array.from({ length: names.length / 2 }, (_, number) =>
    found.slice(2 * number, 2 * number + 2).sort((a, b) => a - b),
  ).sort(([a, b], [c, d]) => a - c || b - d);
  const isNew = held.every(([a, b], number) => number === 0 || a !== held[number - 1][0] || b !== held[number - 1][1]);
  demand(isNew && held.every(([a, b]) => a < b));
  return held;
}

/**
 * Keys by segment: every key, then "anybody", of each segment after the other.
 *
 * @param {number} nSegments
 * @param {number} nKeys
 * @returns {Crossing}
 */
export function labelledOf(nSegments, nKeys) {
  const width = nKeys + 1;
  demand(nSegments * width <= MOST_CROSSED_KEYS);
  return {
    nCodes: nSegments * width,
    of(record, label) {
      const start = label * width;
      const held = record.map(({ code, level }) => ({ code: start + code, level }));
      return [...held, { code: start + nKeys, level: FULL_LEVEL }];
    },
  };
}
