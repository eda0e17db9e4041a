/**
 * Kernels: tables of probabilities and ways to draw from them, one a shape of reports.
 *
 * A kernel is made from integers, counts of words out of 2^64, that this device calibrated itself. Its loss is
 * read off these integers by one rule: of every answer, the largest chance over the smallest, over all records.
 * Where an answer's chance is a common factor times a lift, lifts are compared.
 */
import { demand } from "../checks.js";
import { largest, Ratio, spread } from "../numerics/exact.js";
import { ABSENT, MINUS, OneSymbol, PLUS, Row, trits } from "../report/layouts.js";
import { bitsOf, bucketOf, encoderOf, oracleOf, windowOf } from "./oracles.js";
import { binOf, DUMMY, HALF_LEVEL, levelIn, roundToBoundary, roundToSign, samplePair } from "../records.js";
import { mix } from "../numerics/mixing.js";
import { atLeast, bitOf, pick, WORDS, wordsFor } from "../numerics/words.js";

/**
 * @import { Answer, NamedPair, Pair } from "../../index.d.ts"
 * @import { Words } from "../numerics/words.js"
 * @import { BucketIntegers, ByShape, Integers, Kernel, SignCounts, ValueCounts } from "./shapes.d.ts"
 */

/**
 * The loss of a table: of every column, the largest over the smallest entry.
 *
 * @param {bigint[][]} rows
 */
const lossOf = (rows) => largest(rows[0].map((_, column) => spread(rows.map((row) => Ratio.of(row[column])))));
/**
 * The loss of reports that speak of every key: lifts of the sampled key; a dummy's is 1.
 *
 * @param {Ratio[]} lifts
 */
const lossOfLifts = (lifts) => spread([...lifts, new Ratio(1n)]);

// --- channels: what a report says of one key ---

/** @param {SignCounts} counts */
function signChannel({ keep, flip, fake }) {
  const ownAbsent = WORDS - keep - flip;
  const otherAbsent = WORDS - 2n * fake;
  demand([keep, flip, fake, ownAbsent, otherAbsent].every((count) => count > 0n));
  demand(keep > flip && keep + flip > 2n * fake);
  return {
    keep,
    flip,
    fake,
    /** Chances of ABSENT, PLUS, MINUS for a key sampled with +, one sampled with -, and one not sampled. */
    rows: [
      [ownAbsent, keep, flip],
      [ownAbsent, flip, keep],
      [otherAbsent, fake, fake],
    ],
    /**
     * @param {1 | -1} sign
     * @param {bigint} word
     */
    hearOwn(sign, word) {
      if (word < keep) return sign > 0 ? PLUS : MINUS;
      if (word < keep + flip) return sign > 0 ? MINUS : PLUS;
      return ABSENT;
    },
    hearOther: (/** @type {bigint} */ word) => (word < fake ? PLUS : word < 2n * fake ? MINUS : ABSENT),
  };
}

/** @param {ValueCounts} counts */
function valueChannel({ window, near, far, fake }) {
  const w = windowOf(window);
  const nearWords = near * BigInt(w.width);
  const ownAbsent = WORDS - nearWords - far * BigInt(w.nFar);
  const otherAbsent = WORDS - fake * BigInt(w.nOut);
  demand([far, fake, ownAbsent, otherAbsent].every((count) => count > 0n) && near > far && ownAbsent < otherAbsent);
  return {
    window: w,
    /** Chances of ABSENT and of an output, for a key sampled near it, one sampled far from it, and one not sampled. */
    rows: [
      [ownAbsent, near],
      [ownAbsent, far],
      [otherAbsent, fake],
    ],
    /**
     * @param {number} bin
     * @param {bigint} word
     */
    hearOwn(bin, word) {
      if (word < nearWords) return 1 + w.near(bin, Number(word / near));
      const place = Number((word - nearWords) / far);
      return place < w.nFar ? 1 + w.far(bin, place) : ABSENT;
    },
    /** @param {bigint} word */
    hearOther(word) {
      const place = Number(word / fake);
      return place < w.nOut ? 1 + place : ABSENT;
    },
  };
}

/**
 * How much likelier the sampled rows make each symbol than the last row, which is that of all other keys.
 *
 * @param {{ rows: bigint[][] }} channel
 */
function liftsOf({ rows }) {
  const other = rows[rows.length - 1];
  return rows.slice(0, -1).flatMap((row) => row.map((count, symbol) => new Ratio(count, other[symbol])));
}

// --- shapes ---

const TIE_WORDS = 2 ** 32;
// A tail is a number that a collector's transform runs over.
const MOST_STEP = 22;
// Seeds of columns lie beyond those of offsets: there are at most 2^20 cohorts.
const SEED_OF_COLUMNS = 2n ** 32n;

/** @type {ByShape<Integers, Kernel>} */
const SHAPES = {
  /** One trit a key. Words: slot, rounding, one a key. */
  "signed-unary"({ n_keys, pairs_per_user, channel }) {
    const c = signChannel(channel);
    const thresholds = [c.fake, 2n * c.fake, c.keep, c.keep + c.flip];
    return {
      nWords: 2 + n_keys,
      tellsSigns: true,
      layout: trits(n_keys),
      loss: lossOfLifts(liftsOf(c)),
      perturb(record, words) {
        const sampled = samplePair(record, pairs_per_user, words.at(0));
        const sign = roundToSign(sampled.level, words.at(1));
        const [notPlus, silent, notRight, ownSilent] = atLeast(words.from(2), n_keys, thresholds);
        const answer = new Uint8Array(n_keys + 1);
        // Silence lies above minus, minus above plus: 1, 1 + 1, 1 + 1 - 2.
        for (let place = 0; place < n_keys; place++) {
          answer[place] = 1 + bitOf(notPlus, place) - 2 * bitOf(silent, place);
        }
        const place = Math.max(sampled.code, 0);
        const right = 1 - bitOf(notRight, place);
        const wrong = bitOf(notRight, place) - bitOf(ownSilent, place);
        // A dummy's symbol goes behind the last key, where nobody reads it.
        answer[sampled.code < 0 ? n_keys : place] = sign > 0 ? right + 2 * wrong : 2 * right + wrong;
        return answer.subarray(0, n_keys);
      },
    };
  },

  /** One signed key or dummy. Words: slot, dummy, rounding, response. */
  "signed-response"({ n_keys, pairs_per_user, channel }) {
    const c = signChannel(channel);
    const padded = n_keys + pairs_per_user;
    demand(c.keep + c.flip + BigInt(2 * (padded - 1)) * c.fake === WORDS && c.flip >= c.fake);
    // A held key is sampled in at most so many words, else another one is.
    const sampled = wordsFor(0, pairs_per_user);
    const mixed = (/** @type {bigint} */ own) => sampled * own + (WORDS - sampled) * c.fake;
    return {
      nWords: 4,
      tellsSigns: true,
      layout: new OneSymbol(2 * padded),
      loss: lossOf([[mixed(c.keep)], [mixed(c.flip)], [WORDS * c.fake]]),
      perturb(record, words) {
        const { code, level } = samplePair(record, pairs_per_user, words.at(0));
        const padding = n_keys + pick(words.at(1), pairs_per_user);
        const key = code >= 0 ? code : padding;
        const word = words.at(3);
        const heard = c.hearOwn(roundToSign(level, words.at(2)), word);
        if (heard !== ABSENT) return 2 * key + Number(heard === MINUS);
        const lie = Number((word - c.keep - c.flip) / c.fake);
        return lie + 2 * Number(lie >= 2 * key);
      },
    };
  },

  /** An index in clear and a trit about its key. Words: index, rounding, response. */
  "sampled-index"({ n_keys, channel }) {
    const c = signChannel(channel);
    return {
      nWords: 3,
      tellsSigns: true,
      nKeys: n_keys,
      perIndex: 3,
      layout: new OneSymbol(3 * n_keys),
      loss: lossOf(c.rows),
      perturb(record, words) {
        const index = pick(words.at(0), n_keys);
        const level = levelIn(record, index);
        const own = c.hearOwn(roundToSign(level ?? HALF_LEVEL, words.at(1)), words.at(2));
        const other = c.hearOther(words.at(2));
        return 3 * index + (level === undefined ? other : own);
      },
    };
  },

  /** Nothing or a value for every key and dummy. Words: slot, dummy, one a position. */
  "unary-values"({ n_keys, pairs_per_user, channel }) {
    const c = valueChannel(channel);
    const padded = n_keys + pairs_per_user;
    return {
      nWords: 2 + padded,
      layout: new Row(padded, c.window.nOut + 1),
      loss: lossOfLifts(liftsOf(c)),
      perturb(record, words) {
        const positions = words.from(2);
        const answer = Array.from({ length: padded }, (_, place) => c.hearOther(positions.at(place)));
        const sampled = samplePair(record, pairs_per_user, words.at(0));
        const padding = n_keys + pick(words.at(1), pairs_per_user);
        const [code, level] = sampled.code >= 0 ? [sampled.code, sampled.level] : [padding, 0n];
        answer[code] = c.hearOwn(binOf(level, c.window.nIn), positions.at(code));
        return answer;
      },
    };
  },

  /** An index in clear, and silence or a boundary about its key. Words: index, boundary, response. */
  "indexed-boundary"({ n_keys, channel }) {
    const c = valueChannel(channel);
    const bins = c.window.nIn;
    demand(c.window.nOut === bins);
    return {
      nWords: 3,
      nKeys: n_keys,
      perIndex: bins + 1,
      layout: new OneSymbol(n_keys * (bins + 1)),
      loss: lossOf(c.rows),
      perturb(record, words) {
        const index = pick(words.at(0), n_keys);
        const level = levelIn(record, index);
        const own = c.hearOwn(roundToBoundary(level ?? HALF_LEVEL, bins, words.at(1)), words.at(2));
        const other = c.hearOther(words.at(2));
        return (bins + 1) * index + (level === undefined ? other : own);
      },
    };
  },

  /** An index in clear, and silence or a bit a boundary. Words: index, boundary, held, one a boundary. */
  "indexed-boundary-bits"({ n_keys, held, bits }) {
    const oracle = bitsOf(bits);
    const bins = oracle.nSymbols;
    const symbols = 2 ** bins + 1;
    demand(bins >= 2 && 2n * held > WORDS && held < WORDS);
    return {
      nWords: 3 + bins,
      nKeys: n_keys,
      perIndex: symbols,
      layout: new OneSymbol(n_keys * symbols),
      loss: boundaryBitsLoss(new Ratio(held, WORDS - held), oracle.loss, bins),
      perturb(record, words) {
        const index = pick(words.at(0), n_keys);
        const level = levelIn(record, index);
        const isHeld = level !== undefined;
        const place = isHeld ? roundToBoundary(level, bins, words.at(1)) : pick(words.at(1), bins);
        const shown = oracle.perturb(place, words.from(3)).reduceRight((sum, bit) => 2 * sum + bit, 0);
        return symbols * index + (words.at(2) < (isHeld ? held : WORDS - held) ? 1 + shown : 0);
      },
    };
  },

  /** An index and a public coin in clear, and a trit about the key. Words: index, coin, rounding, response. */
  "broadcast-index"({ n_keys, held, held_keep, fake, fake_keep, levels }) {
    // Given the coin +; given -, the last row and the two before it change places.
    const rows = [
      [WORDS - held, held_keep, held - held_keep],
      [WORDS - held, held - held_keep, held_keep],
      [WORDS - fake, fake_keep, fake - fake_keep],
    ];
    demand(levels.length === n_keys && rows.flat().every((count) => count > 0n) && 2n * held_keep > held);
    return {
      nWords: 4,
      nKeys: n_keys,
      perIndex: 6,
      layout: new OneSymbol(6 * n_keys),
      loss: lossOf(rows),
      perturb(record, words) {
        const index = pick(words.at(0), n_keys);
        const coin = roundToSign(levels[index], words.at(1));
        const level = levelIn(record, index);
        const isHeld = level !== undefined;
        const sign = isHeld ? roundToSign(level, words.at(2)) : coin;
        const word = words.at(3);
        const isKept = word < (isHeld ? held_keep : fake_keep);
        const symbol = word >= (isHeld ? held : fake) ? ABSENT : isKept === sign > 0 ? PLUS : MINUS;
        return 6 * index + 3 * Number(coin < 0) + symbol;
      },
    };
  },

  /** A record hashed to buckets, one of them told. Words: cohort, l to truncate, l for signs or dummies, response. */
  bucket({ n_keys, pairs_per_user: l, buckets, tie, cohorts, low, high }) {
    demand(l <= n_keys && !(buckets === 2 && tie === -TIE_WORDS));
    return {
      ...ownedBuckets({ l, buckets, cohorts, low, high }, (cohort, { code, level }, word) =>
        symbolBucket({ buckets, tie, cohort }, Math.max(code, 0), roundToSign(level, word)),
      ),
      tellsSigns: tie !== TIE_WORDS,
    };
  },

  /** The distinct prefixes of a record's keys hashed to buckets, one of them told. Words: as above. */
  "prefix-bucket"({ longest, bits, step, pairs_per_user: l, buckets, cohorts, low, high }) {
    demand(1 <= step && step <= Math.min(bits, MOST_STEP) && bits <= longest && (buckets & (buckets - 1)) === 0);
    const cut = BigInt(longest - bits);
    const kernel = ownedBuckets({ l, buckets, cohorts, low, high }, (cohort, pair) =>
      prefixBucket({ bits, step, buckets, cohort }, bitsOfKey(pair)),
    );
    return {
      ...kernel,
      perturb(record, words) {
        const prefixes = [...new Set(record.map((pair) => bitsOfKey(pair) >> cut))];
        prefixes.sort((a, b) => (a < b ? -1 : 1));
        return kernel.perturb(
          prefixes.map((prefix) => ({ code: 0, bits: prefix, level: HALF_LEVEL })),
          words,
        );
      },
    };
  },

  /** An oracle's answer about the sampled key, and a noisy sign. Words: slot, rounding, sign, the oracle's. */
  apart({ n_keys, pairs_per_user, oracle: told, sign: { keep } }) {
    const oracle = oracleOf(told);
    const isOne = told.shape === "response";
    demand(oracle.nSymbols === n_keys + 1 && 2n * keep > WORDS && keep < WORDS);
    return {
      nWords: 3 + oracle.nWords,
      layout: isOne ? new OneSymbol(2 * oracle.nSymbols) : new Row(oracle.nSymbols + 1, 2),
      loss: oracle.loss.times(spread([new Ratio(keep), new Ratio(WORDS - keep)])),
      perturb(record, words) {
        const sampled = samplePair(record, pairs_per_user, words.at(0));
        const answer = oracle.perturb(sampled.code >= 0 ? sampled.code : n_keys, words.from(3));
        const sign = roundToSign(sampled.level, words.at(1)) * (words.at(2) < keep ? 1 : -1);
        const up = Number(sign > 0);
        return typeof answer === "number" ? 2 * answer + up : [...Array.from(answer), up];
      },
    };
  },

  /** A record's symbol, told by an oracle. Words: symbol, the oracle's. */
  "encoded-oracle"({ encoder: read, oracle: told }) {
    const encoder = encoderOf(read);
    const oracle = oracleOf(told);
    demand(encoder.nSymbols === oracle.nSymbols);
    return {
      ...oracle,
      nWords: 1 + oracle.nWords,
      publicWord: oracle.publicWord === undefined ? undefined : 1,
      perturb: (record, words) => oracle.perturb(encoder.draw(record, words.at(0)), words.from(1)),
    };
  },
};

/**
 * Two boundaries differ by the bits' odds, silence by the odds of "held"; who does not hold the key tells any
 * boundary, so that one bit alone, and all bits but one, tell less of the likelier boundaries.
 *
 * @param {Ratio} said
 * @param {Ratio} odds
 * @param {number} bins
 */
function boundaryBitsLoss(said, odds, bins) {
  const boundaries = Array.from({ length: bins }, (_, place) => wordsFor(place, bins));
  const least = new Ratio(
    boundaries.reduce((a, b) => (b < a ? b : a)),
    WORDS,
  );
  const surplus = odds.minus(1n).times(least);
  return largest([said, odds, said.times(odds).over(surplus.plus(1n)), odds.minus(surplus).over(said)]);
}

/**
 * In a row with so many own buckets every bucket is told by `own` words or by an even share of the rest.
 *
 * @param {number} most
 * @param {bigint} g
 * @param {(owned: bigint) => bigint} ownWords
 */
function bucketLoss(most, g, ownWords) {
  let [least, likeliest] = [WORDS, 0n];
  for (let owned = 1n; owned <= most; owned++) {
    const own = ownWords(owned);
    const [rest, others] = owned < g ? [WORDS - owned * own, g - owned] : [WORDS, g];
    const shares = [own, rest / others, (rest + others - 1n) / others];
    for (const share of shares) {
      if (share < least) least = share;
      if (share > likeliest) likeliest = share;
    }
  }
  demand(least > 0n);
  return new Ratio(likeliest, least);
}

/**
 * One bucket of g, own ones likelier, whatever decides which pair owns which.
 *
 * @param {{ l: number, buckets: number, cohorts: number, low: bigint, high: bigint }} integers
 * @param {(cohort: number, pair: Pair, word: bigint) => number} bucketOfPair
 */
function ownedBuckets({ l, buckets, cohorts, low, high }, bucketOfPair) {
  const g = BigInt(buckets);
  const ownWords = (/** @type {bigint} */ owned) => {
    const evenly = (WORDS - (g - owned) * low) / owned;
    return evenly < high ? evenly : high;
  };
  demand(0n < low && low < high && g * low < WORDS);
  return {
    nWords: 2 + 2 * l,
    layout: new OneSymbol(cohorts * buckets),
    loss: bucketLoss(Math.min(l, buckets), g, ownWords),
    publicWord: 0,
    follows: (/** @type {Answer} */ answer, /** @type {bigint} */ word) =>
      Math.floor(Number(answer) / buckets) === pick(word, cohorts),
    perturb(/** @type {Pair[]} */ record, /** @type {Words} */ words) {
      const cohort = pick(words.at(0), cohorts);
      const pairs = keptPairs(record, l, words);
      /** @type {Set<number>} */
      const owned = new Set();
      for (let place = 0; place < l; place++) {
        const word = words.at(1 + l + place);
        // Dummies are hashed like key 0: l hashes whatever the record.
        const pair = pairs[place] ?? DUMMY;
        const own = bucketOfPair(cohort, pair, word);
        const dummy = pick(word, buckets);
        owned.add(pair.code >= 0 ? own : dummy);
      }
      const sorted = [...owned].sort((a, b) => a - b);
      return cohort * buckets + tellBucket(sorted, buckets, ownWords, words.at(1 + 2 * l));
    },
  };
}

/**
 * The number that a key is: its bits where nobody listed it, else its code; a dummy's is 0.
 *
 * @param {Pair} pair
 */
const bitsOfKey = (pair) => /** @type {Partial<NamedPair>} */ (pair).bits ?? BigInt(Math.max(pair.code, 0));

/**
 * The public hash of a prefix: drawn anew for its head, linear over its last bits.
 *
 * @param {{ bits: number, step: number, buckets: number, cohort: number }} hash
 * @param {bigint} prefix
 */
function prefixBucket({ bits, step, buckets, cohort }, prefix) {
  const narrow = BigInt(64 - Math.log2(buckets));
  let head = prefix >> BigInt(step);
  let word = mix(BigInt(cohort) + 1n);
  for (let left = Math.max(1, bits - step); left > 0; left -= 64) {
    word = mix(word ^ BigInt.asUintN(64, head));
    head >>= 64n;
  }
  let bucket = word >> narrow;
  const seed = mix(BigInt(cohort) + SEED_OF_COLUMNS);
  for (let place = 0n; place < step; place++) {
    bucket ^= ((prefix >> place) & 1n) * (mix(seed ^ place) >> narrow);
  }
  return Number(bucket);
}

/**
 * The pairs of a record, of which the first l are kept: drawn by Fisher and Yates where there are more.
 *
 * @param {Pair[]} record
 * @param {number} l
 * @param {Words} words
 */
function keptPairs(record, l, words) {
  const pairs = [...record];
  for (let i = 0; record.length > l && i < l; i++) {
    const other = i + pick(words.at(1 + i), record.length - i);
    [pairs[i], pairs[other]] = [pairs[other], pairs[i]];
  }
  return pairs;
}

/**
 * The public hash of a signed key; a tie keeps its two signs together, or apart where it is negative.
 *
 * @param {Pick<BucketIntegers, "buckets" | "tie"> & { cohort: number }} hash
 * @param {number} code
 * @param {1 | -1} sign
 */
function symbolBucket({ buckets, tie, cohort }, code, sign) {
  const free = bucketOf(cohort, 2 * code + Number(sign < 0), buckets);
  if (!tie) return free;
  const plus = bucketOf(cohort, 2 * code, buckets);
  const apart = (plus + 1 + bucketOf(cohort, 2 * code + 1, buckets - 1)) % buckets;
  const isTied = sign < 0 && bucketOf(cohort, -1 - code, TIE_WORDS) < Math.abs(tie);
  return isTied ? (tie > 0 ? plus : apart) : free;
}

/**
 * @param {number[]} owned
 * @param {number} buckets
 * @param {(owned: bigint) => bigint} ownWords
 * @param {bigint} word
 */
function tellBucket(owned, buckets, ownWords, word) {
  const others = buckets - owned.length;
  if (!others) return pick(word, buckets);
  const own = ownWords(BigInt(owned.length));
  const ownAll = own * BigInt(owned.length);
  if (word < ownAll) return owned[Number(word / own)];
  let bucket = Number(((word - ownAll) * BigInt(others)) / (WORDS - ownAll));
  for (const taken of owned) bucket += Number(taken <= bucket);
  return bucket;
}

/**
 * The same where the collector hands out ids: the index follows from the id, as a hash always does.
 *
 * The first word draws an index, and an answer is the index times `perIndex` and what is said of its key.
 *
 * @param {Kernel} kernel
 * @returns {Kernel}
 */
export function withIssuedIds(kernel) {
  const { nKeys, perIndex } = kernel;
  if (nKeys === undefined || perIndex === undefined) return kernel;
  return {
    ...kernel,
    publicWord: 0,
    follows: (answer, word) => Math.floor(Number(answer) / perIndex) === pick(word, nKeys),
  };
}

/**
 * The kernel of calibrated integers. A loss below 1 is impossible, and refused.
 *
 * @param {Integers} integers
 * @returns {Kernel}
 */
export function kernelOf(integers) {
  // TypeScript does not see that a shape's maker gets integers of that shape.
  const kernel = SHAPES[integers.shape](/** @type {any} */ (integers));
  demand(!kernel.loss.isBelow(1n));
  return kernel;
}
