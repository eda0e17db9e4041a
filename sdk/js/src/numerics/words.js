/** Random words of 64 bits, and what is decided by one of them. Counts of words are probabilities out of 2^64. */
import { ceilDiv } from "./exact.js";

export const WORDS = 1n << 64n;

/** Words, little endian, behind their bytes. */
export class Words {
  /** @param {Uint8Array} bytes */
  constructor(bytes) {
    this.bytes = bytes;
    this.view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  }

  /** @param {number} place */
  at(place) {
    return this.view.getBigUint64(8 * place, true);
  }

  /**
   * The words behind a place.
   *
   * @param {number} place
   */
  from(place) {
    return new Words(this.bytes.subarray(8 * place));
  }
}

/**
 * One of `choices` equally likely numbers.
 *
 * @param {bigint} word
 * @param {number} choices
 */
export const pick = (word, choices) => Number((word * BigInt(choices)) >> 64n);

/**
 * How many words make `pick` return less than `choice`.
 *
 * @param {number} choice
 * @param {number} choices
 */
export const wordsBefore = (choice, choices) => ceilDiv(BigInt(choice) << 64n, BigInt(choices));

/**
 * How many words make `pick` return `choice`.
 *
 * @param {number} choice
 * @param {number} choices
 */
export const wordsFor = (choice, choices) => wordsBefore(choice + 1, choices) - wordsBefore(choice, choices);

/**
 * For each threshold, a plane whose k-th bit is set where the k-th number is not below it.
 *
 * The bits of n words, one after the other, are read as 64 planes of n bits; bit i of the k-th number is bit
 * k of plane i. As many steps whatever the bits are.
 *
 * @param {Words} words
 * @param {number} n
 * @param {bigint[]} thresholds
 */
export function atLeast(words, n, thresholds) {
  const { view } = words;
  const packed = new Uint32Array(2 * n + 1);
  for (let at = 0; at < 2 * n; at++) packed[at] = view.getUint32(4 * at, true);
  const width = (n + 31) >>> 5;
  const held = thresholds.map(() => new Uint32Array(width).fill(0xffffffff));
  const plane = new Uint32Array(width);
  for (let i = 0; i < 64; i++) {
    const shift = (i * n) & 31;
    for (let j = 0, at = (i * n) >>> 5; j < width; j++, at++) {
      plane[j] = shift ? (packed[at] >>> shift) | (packed[at + 1] << (32 - shift)) : packed[at];
    }
    for (let t = 0; t < thresholds.length; t++) {
      const one = held[t];
      if ((thresholds[t] >> BigInt(i)) & 1n) for (let j = 0; j < width; j++) one[j] &= plane[j];
      else for (let j = 0; j < width; j++) one[j] |= plane[j];
    }
  }
  return held;
}

/**
 * @param {Uint32Array} plane
 * @param {number} place
 */
export const bitOf = (plane, place) => (plane[place >>> 5] >>> (place & 31)) & 1;
