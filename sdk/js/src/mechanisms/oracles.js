/**
 * From a record to one symbol (encoders), and from a symbol to a noisy answer (oracles).
 *
 * Each is made from its integers, which `mechanisms.js` calibrates; what leaves no room for the truth is refused.
 */
import { demand } from "../checks.js";
import { Ratio, spread } from "../numerics/exact.js";
import { OneSymbol, Row, Subset } from "../report/layouts.js";
import { countSets, joined, unrank } from "./selection.js";
import { FULL_LEVEL, samplePair } from "../records.js";
import { mix } from "../numerics/mixing.js";
import { atLeast, bitOf, pick, WORDS, wordsBefore, wordsFor } from "../numerics/words.js";

/**
 * @import { BitsIntegers, ByShape, Encoder, EncoderIntegers, Oracle } from "./shapes.d.ts"
 * @import { OracleIntegers, ResponseIntegers, WindowSizes } from "./shapes.d.ts"
 */

const MOST_OUTPUTS = 2 ** 20;

/**
 * The public hash of a symbol.
 *
 * @param {number} cohort
 * @param {number} symbol
 * @param {number} buckets
 */
export function bucketOf(cohort, symbol, buckets) {
  const mixed = mix(mix(BigInt(cohort) + 1n) ^ BigInt.asUintN(64, BigInt(symbol) + 1n));
  return Number(((mixed >> 32n) * BigInt(buckets)) >> 32n);
}

/**
 * How many classes have begun at a size.
 *
 * @param {number[]} starts
 * @param {number} size
 */
const classesAt = (starts, size) => starts.filter((start) => start <= size).length;

/** @type {ByShape<EncoderIntegers, Encoder>} */
const ENCODERS = {
  "own-key": ({ n_keys }) => ({
    nSymbols: n_keys + 1,
    draw(record, word) {
      const { code } = samplePair(record, 1, word);
      return code >= 0 ? code : n_keys;
    },
  }),
  "record-size": ({ largest }) => ({ nSymbols: largest + 1, draw: (record) => Math.min(record.length, largest) }),
  "size-class": ({ starts }) => ({ nSymbols: starts.length, draw: (record) => classesAt(starts, record.length) - 1 }),
  "own-sign": () => ({
    nSymbols: 3,
    draw(record, word) {
      if (!record.length) return 0;
      const slot = pick(word, record.length);
      const inside = word - wordsBefore(slot, record.length);
      return inside * FULL_LEVEL < record[slot].level * wordsFor(slot, record.length) ? 1 : 2;
    },
  }),
  "popular-size": ({ popular, most, starts }) => {
    const isPopular = new Set(popular);
    return {
      nSymbols: starts.length + 1,
      draw(record, word) {
        const held = Math.min(most, record.filter(({ code }) => isPopular.has(code)).length);
        return word * BigInt(most) < BigInt(held) << 64n ? classesAt(starts, record.length) : 0;
      },
    };
  },
};

/**
 * Where the likelier outputs of each input lie.
 *
 * @param {WindowSizes} sizes
 */
export function windowOf({ n_in, width, step }) {
  const nOut = width + step * (n_in - 1);
  demand(n_in >= 2 && width >= 1 && nOut <= MOST_OUTPUTS);
  return {
    nIn: n_in,
    nOut,
    width,
    nFar: nOut - width,
    /** @type {(input: number, place: number) => number} */
    near: (input, place) => step * input + place,
    /** @type {(input: number, place: number) => number} */
    far: (input, place) => (place < step * input ? place : place + width),
  };
}

/**
 * The symbol, or any other one.
 *
 * @param {Omit<ResponseIntegers, "shape">} integers
 * @returns {Oracle<number>}
 */
function responseOf({ n_symbols, lie }) {
  const keep = WORDS - BigInt(n_symbols - 1) * lie;
  demand(n_symbols >= 2 && lie >= 1n && keep > lie);
  return {
    nSymbols: n_symbols,
    nWords: 1,
    layout: new OneSymbol(n_symbols),
    loss: spread([new Ratio(keep), new Ratio(lie)]),
    perturb(symbol, words) {
      const word = words.at(0);
      if (word < keep) return symbol;
      const told = Number((word - keep) / lie);
      return told + Number(told >= symbol);
    },
  };
}

/**
 * One bit a symbol; two symbols differ in two bits.
 *
 * @param {Omit<BitsIntegers, "shape">} integers
 * @returns {Oracle<number[]>}
 */
export function bitsOf({ n_symbols, own, other }) {
  demand(0n < other && other < own && own < WORDS);
  return {
    nSymbols: n_symbols,
    nWords: n_symbols,
    layout: new Row(n_symbols, 2),
    loss: spread([new Ratio(own, other), new Ratio(WORDS - own, WORDS - other)]),
    perturb(symbol, words) {
      const [silent, ownSilent] = atLeast(words, n_symbols, [other, own]);
      const answer = new Array(n_symbols);
      for (let place = 0; place < n_symbols; place++) answer[place] = 1 - bitOf(silent, place);
      answer[symbol] = 1 - bitOf(ownSilent, symbol);
      return answer;
    },
  };
}

/** @type {ByShape<OracleIntegers, Oracle>} */
const ORACLES = {
  response: responseOf,
  bits: bitsOf,

  /** Some symbols, the own one among them more often than not; spare numbers name the first sets, whatever it is. */
  selection({ n_symbols, chosen, lie }) {
    const { sets, held, other, nWords, numbers } = countSets(n_symbols, chosen);
    const keep = (numbers - other * lie) / held;
    demand(lie >= 1n && keep > lie);
    return {
      nSymbols: n_symbols,
      nWords,
      layout: new Subset(n_symbols, chosen),
      loss: spread([new Ratio(keep), new Ratio(lie)]),
      perturb(symbol, words) {
        let number = joined(words, nWords);
        for (const { own, among, each } of [
          { own: 1, among: held, each: keep },
          { own: 0, among: other, each: lie },
        ]) {
          if (number < among * each) {
            const answer = unrank(n_symbols - 1, chosen - own, among, number / each);
            answer.splice(symbol, 0, own);
            return answer;
          }
          number -= among * each;
        }
        return unrank(n_symbols, chosen, sets, number);
      },
    };
  },

  /** A public hash, and a response over its buckets. */
  hashed({ n_symbols, cohorts, response }) {
    const inner = responseOf(response);
    const buckets = inner.nSymbols;
    return {
      nSymbols: n_symbols,
      nWords: 2,
      layout: new OneSymbol(cohorts * buckets),
      loss: inner.loss,
      publicWord: 0,
      follows: (answer, word) => Math.floor(Number(answer) / buckets) === pick(word, cohorts),
      perturb(symbol, words) {
        const cohort = pick(words.at(0), cohorts);
        return cohort * buckets + inner.perturb(bucketOf(cohort, symbol, buckets), words.from(1));
      },
    };
  },

  /** Ordered symbols: outputs near the symbol are likelier. */
  wave({ window, near, far }) {
    const w = windowOf(window);
    const nearWords = near * BigInt(w.width);
    // Words that nothing divides add to the last far output, which must not become likelier than a near one.
    const spare = WORDS - nearWords - far * BigInt(w.nFar);
    demand(far >= 1n && spare >= 0n && near >= far + spare);
    return {
      nSymbols: w.nIn,
      nWords: 1,
      layout: new OneSymbol(w.nOut),
      loss: spread([near, far, far + spare].map((count) => new Ratio(count))),
      perturb(symbol, words) {
        const word = words.at(0);
        if (word < nearWords) return w.near(symbol, Number(word / near));
        return w.far(symbol, Math.min(Number((word - nearWords) / far), w.nFar - 1));
      },
    };
  },
};

// TypeScript does not see that a shape's maker gets integers of that shape.
/** @type {(integers: EncoderIntegers) => Encoder} */
export const encoderOf = (integers) => ENCODERS[integers.shape](/** @type {any} */ (integers));
/** @type {(integers: OracleIntegers) => Oracle} */
export const oracleOf = (integers) => ORACLES[integers.shape](/** @type {any} */ (integers));
