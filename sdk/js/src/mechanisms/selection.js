/**
 * Sets of symbols by their number: what subset selection draws from.
 *
 * Sets are ordered by their highest symbol, then by the next, higher ones first; a C(m, k) is C(m-1, k-1) + C(m-1, k).
 * The words of a report are one number below 2^(64 k), with 2^64 of them for every set.
 */
import { demand } from "../checks.js";
import { bitLength, ceilDiv } from "../numerics/exact.js";

/** @import { Words } from "../numerics/words.js" */

/** A report adds numbers of about this many bits as many times. */
export const MOST_SYMBOLS = 2 ** 12;

/**
 * How many sets of `chosen` places there are.
 *
 * @param {number} length
 * @param {number} chosen
 */
function setsOf(length, chosen) {
  let sets = 1n;
  const fewer = Math.min(chosen, length - chosen);
  for (let place = 1; place <= fewer; place++) sets = (sets * BigInt(length - fewer + place)) / BigInt(place);
  return sets;
}

/**
 * How many sets hold a symbol and how many do not, how many words name one, and how many numbers those can be.
 *
 * @param {number} nSymbols
 * @param {number} chosen
 */
export function countSets(nSymbols, chosen) {
  demand(2 <= nSymbols && nSymbols <= MOST_SYMBOLS && 1 <= chosen && chosen < nSymbols);
  const sets = setsOf(nSymbols, chosen);
  const held = (sets * BigInt(chosen)) / BigInt(nSymbols);
  const nWords = 1 + Math.ceil(bitLength(sets - 1n) / 64);
  return { sets, held, other: sets - held, nWords, numbers: 1n << BigInt(64 * nWords) };
}

/**
 * The most lies: rounded up, so that a true set is at most `odds` times as likely.
 *
 * @param {{ n: bigint, d: bigint }} odds
 * @param {number} nSymbols
 * @param {number} chosen
 */
export function lieOf({ n, d }, nSymbols, chosen) {
  const { held, other, numbers } = countSets(nSymbols, chosen);
  return ceilDiv(numbers * d, n * held + d * other);
}

/**
 * The set of `chosen` out of `length` places that has this rank, as bits; there are `sets` of them.
 *
 * @param {number} length
 * @param {number} chosen
 * @param {bigint} sets
 * @param {bigint} rank
 */
export function unrank(length, chosen, sets, rank) {
  const bits = new Array(length).fill(0);
  for (let left = length; left > 0; left--) {
    const held = (sets * BigInt(chosen)) / BigInt(left);
    if (rank < held) {
      bits[left - 1] = 1;
      sets = held;
      chosen--;
    } else {
      rank -= held;
      sets -= held;
    }
  }
  return bits;
}

/**
 * The first words as one number, the first the lowest.
 *
 * @param {Words} words
 * @param {number} nWords
 */
export function joined(words, nWords) {
  let number = 0n;
  for (let place = nWords - 1; place >= 0; place--) number = (number << 64n) | words.at(place);
  return number;
}
