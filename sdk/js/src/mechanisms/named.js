/**
 * Mechanisms by id: which parameters each has, within which bounds, and the kernel that this device makes of them.
 *
 * A description names a mechanism and sizes, never integers of a kernel: there is nothing to lie about.
 */
import { CALIBRATIONS } from "./calibrations.js";
import { demand, hasExactly, isObject, isWhole } from "../checks.js";
import { refuse } from "../refusals.js";
import { logAbove, parseFraction } from "../numerics/exact.js";
import { kernelOf, withIssuedIds } from "./kernels.js";
import { MOST_SYMBOLS } from "./selection.js";
import { WORDS } from "../numerics/words.js";
import { MOST_BITS } from "../texts.js";

/**
 * @import { Mechanism } from "../../index.d.ts"
 * @import { Checked, Integers } from "./shapes.d.ts"
 *
 * @typedef {typeof PARAMETERS} Readers
 * @typedef {keyof Readers} Id
 * @typedef {{ n_keys: number }} Sizes
 */

const LARGEST_EPSILON = 32n;
const MOST_ANSWER_BYTES = 2 ** 20;
const MOST_WORDS = 2 ** 17;
const MOST_SIZE = 2 ** 20;
const MOST_CLASSES = 4096;
const MOST_LEVELS = 2 ** 13;

// --- readers: a parameter's value as the calibration takes it, or a refusal ---

/**
 * @param {unknown} text
 * @param {bigint} most
 */
function fractionUpTo(text, most) {
  const ratio = parseFraction(text);
  demand(ratio !== null && ratio.n <= most * ratio.d);
  return ratio;
}

/** @param {unknown} text */
function budget(text) {
  const ratio = fractionUpTo(text, LARGEST_EPSILON);
  demand(ratio.n > 0n);
  return ratio;
}

const budgetOrNone = (/** @type {unknown} */ text) => fractionUpTo(text, LARGEST_EPSILON);

/** @type {(...names: string[]) => (name: unknown) => string} */
const oneOf =
  (...names) =>
  (name) => {
    demand(typeof name === "string" && names.includes(name));
    return name;
  };

/** @type {(least?: number, most?: number) => (value: unknown) => number} */
const size =
  (least = 1, most = MOST_SIZE) =>
  (value) => {
    demand(isWhole(value, least, most));
    return value;
  };

/**
 * @param {unknown} values
 * @param {number} least
 * @param {number} most
 * @returns {unknown[]}
 */
function list(values, least, most) {
  demand(Array.isArray(values) && least <= values.length && values.length <= most);
  return values;
}

/**
 * Where classes of sizes begin, ascending from `first`.
 *
 * @type {(first: number, least: number) => (values: unknown) => number[]}
 */
const startsAt = (first, least) => (values) => {
  let lowest = first;
  return Array.from(list(values, least, MOST_CLASSES), (start, place) => {
    demand(isWhole(start, lowest, place ? MOST_SIZE : first));
    lowest = start + 1;
    return start;
  });
};

/**
 * @param {unknown} values
 * @param {Sizes} sizes
 * @returns {number[]}
 */
function codes(values, { n_keys }) {
  const read = Array.from(list(values, 1, MOST_CLASSES), size(0, n_keys - 1));
  demand(new Set(read).size === read.length);
  return read;
}

const LEVEL = /^(0|[1-9][0-9]{0,19})$/;

/**
 * @param {unknown} values
 * @param {Sizes} sizes
 */
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
  subset: { epsilon, chosen: size(1, MOST_SYMBOLS) },
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
  "prefix-bucket": {
    epsilon,
    pairs_per_user,
    longest: size(1, MOST_BITS),
    bits: size(1, MOST_BITS),
    step: size(1, MOST_BITS),
    buckets,
    occupied: size(),
    cohorts,
  },
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
  "prefix-bucket",
];

/** @param {Record<string, unknown>} said */
const isIssued = (said) => FOLLOW_IDS.includes(String(said.id)) && Object.hasOwn(said, "ids");

/**
 * @param {string} id
 * @returns {id is Id}
 */
function isKnown(id) {
  return Object.hasOwn(PARAMETERS, id);
}

/**
 * @template Reader
 * @typedef {Reader extends (...given: any[]) => infer Made ? Made : never} Value
 */

/**
 * What the readers of a mechanism make of what was said.
 *
 * @template {Id} I
 * @typedef {Sizes & { [Name in keyof Readers[I]]: Value<Readers[I][Name]> }} Read
 */

/**
 * Every calibration takes exactly what the parameters of its mechanism give: the type checker compares the two tables.
 *
 * @type {{ [I in Id]: (parameters: Read<I>) => Integers }}
 */
const CALIBRATION_OF = CALIBRATIONS;

/**
 * A mechanism's parameters, checked; refuses what is missing, unknown or out of bounds.
 *
 * @param {unknown} said
 * @param {number} n_keys
 */
function readParameters(said, n_keys) {
  demand(isObject(said) && typeof said.id === "string");
  const { id } = said;
  if (!isKnown(id)) refuse("unknown-mechanism");
  /** @type {Record<string, (value: unknown, sizes: Sizes) => unknown>} */
  const readers = PARAMETERS[id];
  demand(hasExactly(said, ["id", ...Object.keys(readers), ...(isIssued(said) ? ["ids"] : [])]));
  demand(!isIssued(said) || said.ids === "issued");
  const read = Object.entries(readers).map(([name, reader]) => [name, reader(said[name], { n_keys })]);
  /** @type {Checked} */
  const parameters = { ...Object.fromEntries(read), n_keys };
  return { id, parameters, areIdsIssued: isIssued(said) };
}

/**
 * The mechanism that a description names, calibrated by this device.
 *
 * `loss` is exp(epsilon) exactly, `price` its logarithm in units of 2^-192, rounded up.
 *
 * @param {unknown} said
 * @param {number} nKeys
 * @returns {Mechanism}
 */
export function mechanismOf(said, nKeys) {
  const { id, parameters, areIdsIssued } = readParameters(said, nKeys);
  if (id === "bucket" || id === "prefix-bucket") {
    demand(parameters.occupied <= Math.min(parameters.pairs_per_user, parameters.buckets - 1));
  }
  const integers = CALIBRATION_OF[id](parameters);
  const kernel = areIdsIssued ? withIssuedIds(kernelOf(integers)) : kernelOf(integers);
  demand(kernel.layout.nBytes <= MOST_ANSWER_BYTES && kernel.nWords <= MOST_WORDS);
  return { ...kernel, id, integers, price: logAbove(kernel.loss) };
}
