/**
 * A mechanism's integers from its parameters, by exact arithmetic: each function says what its Python class's
 * `calibrate` says, and tests/vectors/calibration.json holds both to the same integers.
 *
 * Rounding always goes against the truth, so that no loss exceeds exp(epsilon). `p` are checked parameters:
 * budgets are Ratios, sizes numbers.
 */
import { expBelow, Ratio, smallest } from "./exact.js";
import { WORDS, wordsFor } from "./words.js";

// At most so often is a key reported that was not sampled; at 1 there would be no silence.
const MOST_FAKES = new Ratio(9n, 10n);

const half = (budget) => budget.over(2n);
/** a / b, rounded up. */
const ceil = (a, b) => Ratio.of(a).over(b).ceil();
/** The share of some words with these odds, rounded down. */
const share = (words, odds) => odds.times(words).over(odds.plus(1n)).floor();

// --- oracles ---

function response(odds, n_symbols) {
  return { shape: "response", n_symbols, lie: ceil(WORDS, odds.plus(n_symbols - 1)) };
}

function optimisedBits(odds, n_symbols) {
  return { shape: "bits", n_symbols, own: WORDS / 2n, other: ceil(WORDS, odds.plus(1n)) };
}

function symmetricBits(rootOdds, n_symbols) {
  const other = ceil(WORDS, rootOdds.plus(1n));
  return { shape: "bits", n_symbols, own: WORDS - other, other };
}

const windowOf = (n_in, width) => ({ n_in, width, step: 1 });

function wave(odds, n_in, width) {
  const outside = BigInt(n_in - 1);
  const far = ceil(WORDS, odds.times(width).plus(outside));
  return { shape: "wave", window: windowOf(n_in, width), near: (WORDS - outside * far) / BigInt(width), far };
}

const encoded = (encoder, oracle) => ({ shape: "encoded-oracle", encoder, oracle });
const ownKey = (n_keys) => ({ shape: "own-key", n_keys });
const sizeClass = ({ n_keys, starts }) => ({ shape: "size-class", n_keys, starts });

// --- signs ---

/** Twice the fakes are the words in which a key that is not held is said to be, `held` those of one that is. */
function sampledIndex(n_keys, keyOdds, signOdds) {
  const fake = ceil(WORDS, keyOdds.plus(1n).times(2n));
  const held = WORDS - 2n * fake;
  const keep = share(held, signOdds);
  return { shape: "sampled-index", n_keys, channel: { keep, flip: held - keep, fake } };
}

function privkv({ n_keys, epsilon, allocation }) {
  if (allocation === "naive") return sampledIndex(n_keys, expBelow(half(epsilon)), expBelow(half(epsilon)));
  const odds = expBelow(epsilon);
  return sampledIndex(n_keys, odds.plus(1n).over(2n), odds);
}

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

function kvue({ n_keys, epsilon }) {
  const lie = ceil(WORDS, expBelow(epsilon).plus(2n));
  return { shape: "sampled-index", n_keys, channel: { keep: WORDS - 2n * lie, flip: lie, fake: lie } };
}

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

function ksUe({ n_keys, pairs_per_user, epsilon }) {
  const fake = ceil(WORDS, expBelow(epsilon).plus(2n));
  return { shape: "signed-unary", n_keys, pairs_per_user, channel: { keep: (WORDS - fake) / 2n, flip: fake, fake } };
}

function pckvGrr({ n_keys, pairs_per_user, epsilon, allocation }) {
  const rootOdds = expBelow(half(epsilon));
  const slot = new Ratio(wordsFor(0, pairs_per_user), WORDS);
  const amplified = expBelow(epsilon).minus(1n).over(slot).plus(1n);
  const naive = rootOdds.times(2n).over(rootOdds.plus(1n));
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

function boundary({ n_keys, epsilon, bins }) {
  const odds = expBelow(half(epsilon));
  const fake = ceil(WORDS, odds.plus(1n).times(bins));
  const held = WORDS - BigInt(bins) * fake;
  const far = ceil(held, odds.plus(bins - 1));
  const near = held - BigInt(bins - 1) * far;
  return { shape: "indexed-boundary", n_keys, channel: { window: windowOf(bins, 1), near, far, fake } };
}

function boundaryBits({ n_keys, epsilon, bins }) {
  const odds = expBelow(half(epsilon));
  const held = WORDS - ceil(WORDS, odds.plus(1n));
  return { shape: "indexed-boundary-bits", n_keys, held, bits: optimisedBits(odds, bins) };
}

function valueLevels({ n_keys, epsilon, bins }) {
  const lie = ceil(WORDS, expBelow(epsilon).plus(bins));
  const channel = { window: windowOf(bins, 1), near: WORDS - BigInt(bins) * lie, far: lie, fake: lie };
  return { shape: "indexed-boundary", n_keys, channel };
}

/** near / far within exp(epsilon / 2), a sampled key reported half of the time, fakes as rare as epsilon allows. */
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

/** Two lifts: a near output's, and that of far outputs and silence. */
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

function ueSw({ n_keys, pairs_per_user, epsilon, allocation, bins, width }) {
  const window = windowOf(bins, width);
  const isNaive = allocation === "naive";
  const counts = allocation === "extremal" ? extremalWindow(epsilon, window) : boldWindow(epsilon, isNaive, window);
  return { shape: "unary-values", n_keys, pairs_per_user, channel: { window, ...counts } };
}

// --- whole records ---

function bucket({ n_keys, pairs_per_user, epsilon, buckets, occupied, tie, cohorts }) {
  const odds = expBelow(epsilon);
  const others = BigInt(buckets - occupied);
  const low = ceil(WORDS, odds.times(occupied).plus(others));
  const [bold, even] = [odds.times(low).floor(), (WORDS - others * low) / BigInt(occupied)];
  return { shape: "bucket", n_keys, pairs_per_user, buckets, tie, cohorts, low, high: bold < even ? bold : even };
}

/** Half of the budget for the key, told by an oracle, half for the sign. */
const apart = (oracle) =>
  function ({ n_keys, pairs_per_user, epsilon }) {
    const rootOdds = expBelow(half(epsilon));
    const sign = { keep: share(WORDS, rootOdds) };
    return { shape: "apart", n_keys, pairs_per_user, oracle: oracle(n_keys + 1, rootOdds, half(epsilon)), sign };
  };

/** Integers by the mechanism's id. */
export const CALIBRATIONS = {
  privkv,
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
  grr: (p) => encoded(ownKey(p.n_keys), response(expBelow(p.epsilon), p.n_keys + 1)),
  oue: (p) => encoded(ownKey(p.n_keys), optimisedBits(expBelow(p.epsilon), p.n_keys + 1)),
  olh: (p) =>
    encoded(ownKey(p.n_keys), {
      shape: "hashed",
      n_symbols: p.n_keys + 1,
      cohorts: p.cohorts,
      response: response(expBelow(p.epsilon), p.buckets),
    }),
  "krr-harmony": apart((n_symbols, odds) => response(odds, n_symbols)),
  "rappor-harmony": apart((n_symbols, odds, budget) => symmetricBits(expBelow(half(budget)), n_symbols)),
  "oue-harmony": apart((n_symbols, odds) => optimisedBits(odds, n_symbols)),
  bucket,
  "record-size": (p) => encoded(recordSize(p), response(expBelow(p.epsilon), p.largest + 1)),
  "record-size-bits": (p) => encoded(recordSize(p), optimisedBits(expBelow(p.epsilon), p.largest + 1)),
  "size-class": (p) => encoded(sizeClass(p), response(expBelow(p.epsilon), p.starts.length)),
  "size-class-wave": (p) => encoded(sizeClass(p), wave(expBelow(p.epsilon), p.starts.length, p.width)),
  "own-sign": (p) => encoded({ shape: "own-sign", n_keys: p.n_keys }, response(expBelow(p.epsilon), 3)),
  "popular-size": ({ n_keys, epsilon, popular, most, starts }) =>
    encoded({ shape: "popular-size", n_keys, popular, most, starts }, response(expBelow(epsilon), starts.length + 1)),
};

function recordSize({ n_keys, largest }) {
  return { shape: "record-size", n_keys, largest };
}
