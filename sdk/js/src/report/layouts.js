/** How an answer becomes bytes whose length depends on the round alone; one byte string an answer. */
import { refuse } from "../refusals.js";
import { bitLength } from "../numerics/exact.js";

export const ABSENT = 0;
export const PLUS = 1;
export const MINUS = 2;

/** @import { Layout } from "../../index.d.ts" */

/**
 * @param {Uint8Array} payload
 * @param {number} expected
 */
function checkLength(payload, expected) {
  if (payload.length !== expected) {
    refuse("wrong-length", `expected a payload of ${expected} bytes, got ${payload.length}`);
  }
}

/**
 * `length` numbers below `size`, each in the same few bits, the first in the lowest.
 *
 * @implements {Layout<ArrayLike<number>>}
 */
export class Row {
  /**
   * @param {number} length
   * @param {number} size
   * @param {number} [bits]
   */
  constructor(length, size, bits = Math.max(1, bitLength(size - 1))) {
    this.length = length;
    this.size = size;
    this.bits = bits;
    this.nBytes = Math.ceil((bits * length) / 8);
  }

  /** @param {ArrayLike<number>} answer */
  encode(answer) {
    const payload = new Uint8Array(this.nBytes);
    for (let place = 0, at = 0; place < this.length; place++, at += this.bits) {
      // Exact in a float: a number has at most 45 bits and is shifted by at most seven.
      for (let rest = answer[place] * 2 ** (at & 7), byte = at >>> 3; rest >= 1; rest = Math.floor(rest / 256)) {
        payload[byte++] |= rest & 255;
      }
    }
    return payload;
  }

  /** @param {Uint8Array} payload */
  decode(payload) {
    checkLength(payload, this.nBytes);
    const answer = new Array(this.length);
    for (let place = 0, at = 0; place < this.length; place++) {
      let number = 0;
      for (let bit = 0; bit < this.bits; bit++, at++) number += ((payload[at >>> 3] >>> (at & 7)) & 1) * 2 ** bit;
      if (number >= this.size) refuse("not-canonical", `expected numbers below ${this.size}`);
      answer[place] = number;
    }
    const used = this.bits * this.length;
    if (used & 7 && payload[this.nBytes - 1] >>> (used & 7)) {
      refuse("not-canonical", "bits are set behind the last number");
    }
    return answer;
  }
}

/**
 * `chosen` of `length` places: a bit each, the first in the lowest.
 *
 * @implements {Layout<ArrayLike<number>>}
 */
export class Subset {
  /**
   * @param {number} length
   * @param {number} chosen
   */
  constructor(length, chosen) {
    this.chosen = chosen;
    this.bits = new Row(length, 2);
    this.nBytes = this.bits.nBytes;
  }

  /** @param {ArrayLike<number>} answer */
  encode(answer) {
    return this.bits.encode(answer);
  }

  /** @param {Uint8Array} payload */
  decode(payload) {
    const answer = this.bits.decode(payload);
    if (answer.reduce((sum, bit) => sum + bit, 0) !== this.chosen) {
      refuse("not-canonical", `expected ${this.chosen} places to be named`);
    }
    return answer;
  }
}

/**
 * One number below `size`, little endian, in the fewest whole bytes.
 *
 * @implements {Layout<number>}
 */
export class OneSymbol {
  /** @param {number} size */
  constructor(size) {
    this.size = size;
    this.nBytes = Math.max(1, Math.ceil(bitLength(size - 1) / 8));
  }

  /** @param {number} answer */
  encode(answer) {
    const payload = new Uint8Array(this.nBytes);
    for (let byte = 0, rest = answer; byte < this.nBytes; byte++, rest = Math.floor(rest / 256)) {
      payload[byte] = rest % 256;
    }
    return payload;
  }

  /** @param {Uint8Array} payload */
  decode(payload) {
    checkLength(payload, this.nBytes);
    const number = payload.reduceRight((sum, byte) => 256 * sum + byte, 0);
    if (number >= this.size) refuse("not-canonical", `expected a symbol below ${this.size}`);
    return number;
  }
}

/**
 * Symbols 0, 1, 2 at two bits each: a row whose fourth code is unused.
 *
 * @param {number} length
 */
export const trits = (length) => new Row(length, 3, 2);
