/**
 * A mechanism's integers from its parameters, by exact arithmetic: each function says what its Python class's
 * `calibrate` says, and tests/vectors/calibration.json holds both to the same integers.
 *
 * Rounding always goes against the truth, so that no loss exceeds exp(epsilon). `p` are checked parameters:
 * budgets are Ratios, sizes numbers.
 */
import { demand } from "../checks.js";
import { expBelow, Ratio, smallest } from "../numerics/exact.js";
import { lieOf } from "./selection.js";
import { WORDS, wordsFor } from "../numerics/words.js";

/**
 * @import { BitsIntegers, Checked, EncoderIntegers, Integers, OracleIntegers } from "./shapes.d.ts"
 * @import { ResponseIntegers, WindowSizes } from "./shapes.d.ts"
 *
 * @typedef {"n_keys" | "pairs_per_user" | "epsilon" | "allocation" | "bins" | "width"} SquareWave
 * @typedef {"n_keys" | "pairs_per_user" | "epsilon" | "buckets" | "occupied" | "cohorts"} Bucketed
 */

// At most so often is a key reported that was not sampled; at 1 there would be no silence.
const MOST_FAKES = new Ratio(9n, 10n);

const half = (/** @type {Ratio} */ budget) => budget.over(2n);
/**
 * a / b, rounded up.
 *
 * @param {Ratio | bigint} a
 * @param {Ratio | bigint} b
 */
const ceil = (a, b) => Ratio.of(a).over(b).ceil();
/**
 * The share of some words with these odds, rounded down.
 *
 * @param {bigint} words
 * @param {Ratio} odds
 */
const share = (words, odds) => odds.times(words).over(odds.plus(1n)).floor();

// --- oracles ---

/** @type {(odds: Ratio, n_symbols: number) => ResponseIntegers} */
function response(odds, n_symbols) {
  return { shape: "response", n_symbols, lie: ceil(WORDS, odds.plus(n_symbols - 1)) };
}

/** @type {(odds: Ratio, n_symbols: number) => BitsIntegers} */
function optimisedBits(odds, n_symbols) {
  return { shape: "bits", n_symbols, own: WORDS / 2n, other: ceil(WORDS, odds.plus(1n)) };
}

/** @type {(rootOdds: Ratio, n_symbols: number) => BitsIntegers} */
function symmetricBits(rootOdds, n_symbols) {
  const other = ceil(WORDS, rootOdds.plus(1n));
  return { shape: "bits", n_symbols, own: WORDS - other, other };
}

/** @type {(odds: Ratio, n_symbols: number, chosen: number) => OracleIntegers} */
function selection(odds, n_symbols, chosen) {
  return { shape: "selection", n_symbols, chosen, lie: lieOf(odds, n_symbols, chosen) };
}

/** @type {(n_in: number, width: number) => WindowSizes} */
const windowOf = (n_in, width) => ({ n_in, width, step: 1 });

/** @type {(odds: Ratio, n_in: number, width: number) => OracleIntegers} */
function wave(odds, n_in, width) {
  const outside = BigInt(n_in - 1);
  const far = ceil(WORDS, odds.times(width).plus(outside));
  return { shape: "wave", window: windowOf(n_in, width), near: (WORDS - outside * far) / BigInt(width), far };
}

/** @type {(encoder: EncoderIntegers, oracle: OracleIntegers) => Integers} */
const encoded = (encoder, oracle) => ({ shape: "encoded-oracle", encoder, oracle });
/** @type {(n_keys: number) => EncoderIntegers} */
const ownKey = (n_keys) => ({ shape: "own-key", n_keys });
/** @type {(p: Pick<Checked, "n_keys" | "starts">) => EncoderIntegers} */
const sizeClass = ({ n_keys, starts }) => ({ shape: "size-class", n_keys, starts });

// --- signs ---

/**
 * Twice the fakes are the words in which a key that is not held is said to be, `held` those of one that is.
 *
 * @type {(n_keys: number, keyOdds: Ratio, signOdds: Ratio) => Integers}
 */
function sampledIndex(n_keys, keyOdds, signOdds) {
  const fake = ceil(WORDS, keyOdds.plus(1n).times(2n));
  const held = WORDS - 2n * fake;
  const keep = share(held, signOdds);
  return { shape: "sampled-index", n_keys, channel: { keep, flip: held - keep, fake } };
}

/** @type {(p: Pick<Checked, "n_keys" | "epsilon" | "allocation">) => Integers} */
function privkv({ n_keys, epsilon, allocation }) {
  if (allocation === "naive") return sampledIndex(n_keys, expBelow(half(epsilon)), expBelow(half(epsilon)));
  const odds = expBelow(epsilon);
  return sampledIndex(n_keys, odds.plus(1n).over(2n), odds);
}

/** @type {(p: Pick<Checked, "n_keys" | "key_epsilon" | "sign_epsilon" | "levels">) => Integers} */
function broadcast({ n_keys, key_epsilon, sign_epsilon, levels }) {
  const odds = expBelow(sign_epsilon);
  const fake = ceil(WORDS, expBelow(key_epsilon).plus(1n));
  const held = WORDS - fake;
  return {
    shape: "broadcast-index",
    n_keys,
    held,
    held_keep: share(held, odds),
    fake,
    // Rounded down, both: a kept sign is what tells a holder from a flipped coin.
    fake_keep: share(fake, odds),
    levels,
  };
}

/** @type {(p: Pick<Checked, "n_keys" | "epsilon">) => Integers} */
function kvue({ n_keys, epsilon }) {
  const lie = ceil(WORDS, expBelow(epsilon).plus(2n));
  return { shape: "sampled-index", n_keys, channel: { keep: WORDS - 2n * lie, flip: lie, fake: lie } };
}

/** @type {(p: Pick<Checked, "n_keys" | "pairs_per_user" | "epsilon" | "allocation">) => Integers} */
function pckvUe({ n_keys, pairs_per_user, epsilon, allocation }) {
  const [odds, rootOdds] = [expBelow(epsilon), expBelow(half(epsilon))];
  const reported = WORDS / 2n;
  const keep = share(reported, allocation === "optimal" ? odds : rootOdds);
  const fake =
    allocation === "naive"
      ? ceil(WORDS, rootOdds.plus(1n).times(2n))
      : ceil(keep * WORDS, odds.times(WORDS - reported).plus(2n * keep));
  return { shape: "signed-unary", n_keys, pairs_per_user, channel: { keep, flip: reported - keep, fake } };
}

/** @type {(p: Pick<Checked, "n_keys" | "pairs_per_user" | "epsilon">) => Integers} */
function ksUe({ n_keys, pairs_per_user, epsilon }) {
  const fake = ceil(WORDS, expBelow(epsilon).plus(2n));
  return { shape: "signed-unary", n_keys, pairs_per_user, channel: { keep: (WORDS - fake) / 2n, flip: fake, fake } };
}

/** @type {(p: Pick<Checked, "n_keys" | "pairs_per_user" | "epsilon" | "allocation">) => Integers} */
function pckvGrr({ n_keys, pairs_per_user, epsilon, allocation }) {
  const rootOdds = expBelow(half(epsilon));
  const slot = new Ratio(wordsFor(0, pairs_per_user), WORDS);
  const amplified = expBelow(epsilon).minus(1n).over(slot).plus(1n);
  const naive = rootOdds.times(2n).over(rootOdds.plus(1n));
  /** @type {Record<string, [Ratio, Ratio]>} */
  const ratios = {
    naive: [naive.times(rootOdds), naive],
    tight: [amplified, amplified.over(rootOdds)],
    optimal: [amplified, new Ratio(1n)],
  };
  const [keepRatio, flipRatio] = ratios[allocation];
  const others = BigInt(2 * (n_keys + pairs_per_user - 1));
  const fake = ceil(WORDS, keepRatio.plus(flipRatio).plus(others));
  const flip = flipRatio.times(fake).ceil();
  return {
    shape: "signed-response",
    n_keys,
    pairs_per_user,
    channel: { keep: WORDS - flip - others * fake, flip, fake },
  };
}

// --- values ---

/** @type {(p: Pick<Checked, "n_keys" | "epsilon" | "bins">) => Integers} */
function boundary({ n_keys, epsilon, bins }) {
  const odds = expBelow(half(epsilon));
  const fake = ceil(WORDS, odds.plus(1n).times(bins));
  const held = WORDS - BigInt(bins) * fake;
  const far = ceil(held, odds.plus(bins - 1));
  const near = held - BigInt(bins - 1) * far;
  return { shape: "indexed-boundary", n_keys, channel: { window: windowOf(bins, 1), near, far, fake } };
}

/** @type {(p: Pick<Checked, "n_keys" | "epsilon" | "bins">) => Integers} */
function boundaryBits({ n_keys, epsilon, bins }) {
  const odds = expBelow(half(epsilon));
  const held = WORDS - ceil(WORDS, odds.plus(1n));
  return { shape: "indexed-boundary-bits", n_keys, held, bits: optimisedBits(odds, bins) };
}

/** @type {(p: Pick<Checked, "n_keys" | "epsilon" | "bins">) => Integers} */
function valueLevels({ n_keys, epsilon, bins }) {
  const lie = ceil(WORDS, expBelow(epsilon).plus(bins));
  const channel = { window: windowOf(bins, 1), near: WORDS - BigInt(bins) * lie, far: lie, fake: lie };
  return { shape: "indexed-boundary", n_keys, channel };
}

/**
 * near / far within exp(epsilon / 2), a sampled key reported half of the time, fakes as rare as epsilon allows.
 *
 * @param {Ratio} epsilon
 * @param {boolean} isNaive
 * @param {WindowSizes} window
 */
function boldWindow(epsilon, isNaive, { n_in, width }) {
  const rootOdds = expBelow(half(epsilon));
  const [outside, nOut, reported] = [BigInt(n_in - 1), BigInt(n_in - 1 + width), WORDS / 2n];
  const far = ceil(reported, rootOdds.times(width).plus(outside));
  const near = (reported - outside * far) / BigInt(width);
  const absent = WORDS - near * BigInt(width) - far * outside;
  const fake = isNaive
    ? ceil(WORDS, rootOdds.plus(1n).times(nOut))
    : ceil(
        near * WORDS,
        expBelow(epsilon)
          .times(absent)
          .plus(near * nOut),
      );
  return { near, far, fake };
}

/**
 * Two lifts: a near output's, and that of far outputs and silence.
 *
 * @param {Ratio} epsilon
 * @param {WindowSizes} window
 */
function extremalWindow(epsilon, { n_in, width: wide }) {
  const odds = expBelow(epsilon);
  const [width, outside, nOut] = [BigInt(wide), BigInt(n_in - 1), BigInt(n_in - 1 + wide)];
  const nearFakes = smallest([new Ratio(1n).over(odds.plus(1n)), MOST_FAKES.times(new Ratio(width, nOut))]);
  const fake = ceil(nearFakes.times(WORDS), width);
  const far = ceil(
    fake * WORDS,
    odds
      .minus(1n)
      .times(fake * width)
      .plus(WORDS),
  );
  const loud = odds.times(fake);
  const near = loud
    .times(WORDS - far * outside)
    .over(
      loud
        .times(width)
        .plus(WORDS)
        .minus(nOut * fake),
    )
    .floor();
  return { near, far, fake };
}

/** @type {(p: Pick<Checked, SquareWave>) => Integers} */
function ueSw({ n_keys, pairs_per_user, epsilon, allocation, bins, width }) {
  const window = windowOf(bins, width);
  const isNaive = allocation === "naive";
  const counts = allocation === "extremal" ? extremalWindow(epsilon, window) : boldWindow(epsilon, isNaive, window);
  return { shape: "unary-values", n_keys, pairs_per_user, channel: { window, ...counts } };
}

// --- whole records ---

/**
 * Words for each other bucket at least, and for an own one at most.
 *
 * @param {Pick<Checked, "epsilon" | "buckets" | "occupied">} p
 */
function ownedWords({ epsilon, buckets, occupied }) {
  const odds = expBelow(epsilon);
  const others = BigInt(buckets - occupied);
  const low = ceil(WORDS, odds.times(occupied).plus(others));
  const [bold, even] = [odds.times(low).floor(), (WORDS - others * low) / BigInt(occupied)];
  return { low, high: bold < even ? bold : even };
}

/** @type {(p: Pick<Checked, Bucketed | "tie">) => Integers} */
const bucket = ({ epsilon, occupied, ...p }) => ({
  shape: "bucket",
  ...p,
  ...ownedWords({ epsilon, occupied, buckets: p.buckets }),
});

/** @type {(p: Pick<Checked, Bucketed | "longest" | "bits" | "step">) => Integers} */
function prefixBucket({ n_keys, epsilon, occupied, ...p }) {
  demand(p.pairs_per_user <= n_keys && n_keys <= 2 ** p.longest);
  return { shape: "prefix-bucket", ...p, ...ownedWords({ epsilon, occupied, buckets: p.buckets }) };
}

/**
 * Half of the budget for the key, told by an oracle, half for the sign.
 *
 * @param {(n_symbols: number, odds: Ratio, budget: Ratio) => OracleIntegers} oracle
 * @returns {(p: Pick<Checked, "n_keys" | "pairs_per_user" | "epsilon">) => Integers}
 */
const apart = (oracle) =>
  function ({ n_keys, pairs_per_user, epsilon }) {
    const rootOdds = expBelow(half(epsilon));
    const sign = { keep: share(WORDS, rootOdds) };
    return { shape: "apart", n_keys, pairs_per_user, oracle: oracle(n_keys + 1, rootOdds, half(epsilon)), sign };
  };

/** Integers by the mechanism's id. */
export const CALIBRATIONS = {
  privkv,
  /** @param {Pick<Checked, "key_epsilon" | "n_keys" | "sign_epsilon">} p */
  "privkv-split": (p) => sampledIndex(p.n_keys, expBelow(p.key_epsilon), expBelow(p.sign_epsilon)),
  "privkv-broadcast": broadcast,
  "privkvm-star": boundary,
  "privkvm-star-oue": boundaryBits,
  kvue,
  levels: valueLevels,
  "pckv-ue": pckvUe,
  "pckv-grr": pckvGrr,
  "ks-ue": ksUe,
  "ue-sw": ueSw,
  /** @param {Pick<Checked, "epsilon" | "n_keys">} p */
  grr: (p) => encoded(ownKey(p.n_keys), response(expBelow(p.epsilon), p.n_keys + 1)),
  /** @param {Pick<Checked, "epsilon" | "n_keys">} p */
  oue: (p) => encoded(ownKey(p.n_keys), optimisedBits(expBelow(p.epsilon), p.n_keys + 1)),
  /** @param {Pick<Checked, "buckets" | "cohorts" | "epsilon" | "n_keys">} p */
  olh: (p) =>
    encoded(ownKey(p.n_keys), {
      shape: "hashed",
      n_symbols: p.n_keys + 1,
      cohorts: p.cohorts,
      response: response(expBelow(p.epsilon), p.buckets),
    }),
  /** @param {Pick<Checked, "chosen" | "epsilon" | "n_keys">} p */
  subset: (p) => encoded(ownKey(p.n_keys), selection(expBelow(p.epsilon), p.n_keys + 1, p.chosen)),
  "krr-harmony": apart((n_symbols, odds) => response(odds, n_symbols)),
  "rappor-harmony": apart((n_symbols, odds, budget) => symmetricBits(expBelow(half(budget)), n_symbols)),
  "oue-harmony": apart((n_symbols, odds) => optimisedBits(odds, n_symbols)),
  bucket,
  /** @param {Pick<Checked, "epsilon" | "largest" | "n_keys">} p */
  "record-size": (p) => encoded(recordSize(p), response(expBelow(p.epsilon), p.largest + 1)),
  /** @param {Pick<Checked, "epsilon" | "largest" | "n_keys">} p */
  "record-size-bits": (p) => encoded(recordSize(p), optimisedBits(expBelow(p.epsilon), p.largest + 1)),
  /** @param {Pick<Checked, "epsilon" | "n_keys" | "starts">} p */
  "size-class": (p) => encoded(sizeClass(p), response(expBelow(p.epsilon), p.starts.length)),
  /** @param {Pick<Checked, "epsilon" | "n_keys" | "starts" | "width">} p */
  "size-class-wave": (p) => encoded(sizeClass(p), wave(expBelow(p.epsilon), p.starts.length, p.width)),
  /** @param {Pick<Checked, "epsilon" | "n_keys">} p */
  "own-sign": (p) => encoded({ shape: "own-sign", n_keys: p.n_keys }, response(expBelow(p.epsilon), 3)),
  /** @param {Pick<Checked, "n_keys" | "epsilon" | "popular" | "most" | "starts">} p */
  "popular-size": ({ n_keys, epsilon, popular, most, starts }) =>
    encoded({ shape: "popular-size", n_keys, popular, most, starts }, response(expBelow(epsilon), starts.length + 1)),
  "prefix-bucket": prefixBucket,
};

/** @type {(p: Pick<Checked, "n_keys" | "largest">) => EncoderIntegers} */
function recordSize({ n_keys, largest }) {
  return { shape: "record-size", n_keys, largest };
}
