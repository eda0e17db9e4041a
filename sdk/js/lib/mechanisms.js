/**
 * Mechanisms by id: which parameters each has, within which bounds, and the kernel that this device makes of them.
 *
 * A description names a mechanism and sizes, never integers of a kernel: there is nothing to lie about.
 */
import { CALIBRATIONS } from "./calibrations.js";
import { demand, hasExactly, isObject, isWhole } from "./checks.js";
import { refuse } from "./codes.js";
import { logAbove, parseFraction } from "./exact.js";
import { kernelOf, withIssuedIds } from "./kernels.js";
import { WORDS } from "./words.js";

const LARGEST_EPSILON = 32n;
const MOST_ANSWER_BYTES = 2 ** 20;
const MOST_WORDS = 2 ** 17;
const MOST_SIZE = 2 ** 20;
const MOST_CLASSES = 4096;
const MOST_LEVELS = 2 ** 13;

// --- readers: a parameter's value as the calibration takes it, or a refusal ---

function fractionUpTo(text, most) {
  const ratio = parseFraction(text);
  demand(ratio !== null && ratio.n <= most * ratio.d);
  return ratio;
}

function budget(text) {
  const ratio = fractionUpTo(text, LARGEST_EPSILON);
  demand(ratio.n > 0n);
  return ratio;
}

const budgetOrNone = (text) => fractionUpTo(text, LARGEST_EPSILON);

const oneOf =
  (...names) =>
  (name) => {
    demand(names.includes(name));
    return name;
  };

const size =
  (least = 1, most = MOST_SIZE) =>
  (value) => {
    demand(isWhole(value, least, most));
    return value;
  };

function list(values, least, most) {
  demand(Array.isArray(values) && least <= values.length && values.length <= most);
  return values;
}

/** Where classes of sizes begin, ascending from `first`. */
const startsAt = (first, least) => (values) => {
  list(values, least, MOST_CLASSES).forEach((start, place) => {
    demand(place ? isWhole(start, values[place - 1] + 1, MOST_SIZE) : start === first);
  });
  return [...values];
};

function codes(values, { n_keys }) {
  demand(
    list(values, 1, MOST_CLASSES).every((code) => isWhole(code, 0, n_keys - 1)) &&
      new Set(values).size === values.length,
  );
  return [...values];
}

const LEVEL = /^(0|[1-9][0-9]{0,19})$/;

function means(values, { n_keys }) {
  demand(n_keys <= MOST_LEVELS);
  return Array.from(list(values, n_keys, n_keys), (text) => {
    demand(typeof text === "string" && LEVEL.test(text));
    const level = BigInt(text);
    demand(level <= WORDS);
    return level;
  });
}

const epsilon = budget;
const pairs_per_user = size(1, 8192);
const cohorts = size();
const buckets = size(2);
const split = oneOf("optimal", "tight", "naive");

/** The parameters of each mechanism, beside its id. */
const PARAMETERS = {
  privkv: { epsilon, allocation: oneOf("naive", "tight") },
  "privkv-split": { key_epsilon: budget, sign_epsilon: budget },
  "privkv-broadcast": { key_epsilon: budgetOrNone, sign_epsilon: budget, levels: means },
  "privkvm-star": { epsilon, bins: size(2, 4096) },
  "privkvm-star-oue": { epsilon, bins: size(2, 32) },
  kvue: { epsilon },
  levels: { epsilon, bins: size(2, 4096) },
  "pckv-ue": { epsilon, allocation: split, pairs_per_user },
  "pckv-grr": { epsilon, allocation: split, pairs_per_user },
  "ks-ue": { epsilon, pairs_per_user },
  "ue-sw": {
    epsilon,
    allocation: oneOf("tight", "naive", "extremal"),
    pairs_per_user,
    bins: size(2, 4096),
    width: size(),
  },
  grr: { epsilon },
  oue: { epsilon },
  olh: { epsilon, buckets, cohorts },
  "krr-harmony": { epsilon, pairs_per_user },
  "rappor-harmony": { epsilon, pairs_per_user },
  "oue-harmony": { epsilon, pairs_per_user },
  bucket: { epsilon, pairs_per_user, buckets, occupied: size(), tie: size(-(2 ** 32), 2 ** 32), cohorts },
  "record-size": { epsilon, largest: size() },
  "record-size-bits": { epsilon, largest: size() },
  "size-class": { epsilon, starts: startsAt(0, 2) },
  "size-class-wave": { epsilon, starts: startsAt(0, 2), width: size() },
  "own-sign": { epsilon },
  "popular-size": { epsilon, popular: codes, most: size(), starts: startsAt(1, 1) },
};

/** Mechanisms with an index or a hash: it follows from the report's id where the collector hands out ids. */
const FOLLOW_IDS = [
  "privkv",
  "privkv-split",
  "privkv-broadcast",
  "privkvm-star",
  "privkvm-star-oue",
  "kvue",
  "levels",
  "olh",
  "bucket",
];

const isIssued = (said) => FOLLOW_IDS.includes(said.id) && Object.hasOwn(said, "ids");

/** A mechanism's parameters, checked; refuses what is missing, unknown or out of bounds. */
function readParameters(said, n_keys) {
  demand(isObject(said) && typeof said.id === "string");
  if (!Object.hasOwn(PARAMETERS, said.id)) refuse("unknown-mechanism");
  const readers = PARAMETERS[said.id];
  demand(hasExactly(said, ["id", ...Object.keys(readers), ...(isIssued(said) ? ["ids"] : [])]));
  demand(!isIssued(said) || said.ids === "issued");
  const read = Object.entries(readers).map(([name, reader]) => [name, reader(said[name], { n_keys })]);
  return Object.fromEntries(read);
}

/**
 * The mechanism that a description names, calibrated by this device.
 *
 * `loss` is exp(epsilon) exactly, `price` its logarithm in units of 2^-192, rounded up.
 */
export function mechanismOf(said, n_keys) {
  const parameters = readParameters(said, n_keys);
  if (said.id === "bucket") {
    demand(parameters.occupied <= Math.min(parameters.pairs_per_user, parameters.buckets - 1));
  }
  const integers = CALIBRATIONS[said.id]({ ...parameters, n_keys });
  const kernel = isIssued(said) ? withIssuedIds(kernelOf(integers)) : kernelOf(integers);
  demand(kernel.layout.nBytes <= MOST_ANSWER_BYTES && kernel.nWords <= MOST_WORDS);
  return { ...kernel, id: said.id, integers, price: logAbove(kernel.loss) };
}
