/**
 * What a user holds, in the form the mechanisms read: pairs of a key's code and its value's level.
 *
 * Reading a record takes time by its length, and so does looking a key up in it: whoever can time this code
 * on the device may learn how many pairs there are. What follows draws as many words and makes as many bytes
 * whatever the record; big integers and a just-in-time compiler promise no equal time for it.
 */
import { refuse } from "./refusals.js";
import { pick, WORDS } from "./numerics/words.js";

/** @import { Campaign, Held, Pair, Round } from "../index.d.ts" */

export const FULL_LEVEL = WORDS;
export const HALF_LEVEL = WORDS >> 1n;
/** Stands where padding was sampled: no key has its code, its value is the middle. */
export const DUMMY = Object.freeze({ code: -1, level: HALF_LEVEL });

/**
 * The level of a value in [-1, 1]: how many of 2^64 words round it up to +1.
 *
 * @param {number} value
 */
export function levelOf(value) {
  return BigInt(Math.trunc((Math.min(Math.max(value, -1), 1) + 1) * 2 ** 63));
}

/**
 * The record that a round asks about, ordered by the codes that the round gives its keys; `label` is the user's segment
 * where keys are asked about by segment.
 *
 * Values beyond the range go to the nearer end, NaN is left out, an unknown key is left out or averaged into
 * `other`. What maps no names to numbers is refused by that rule, never by its values.
 *
 * @param {Pick<Round, "campaign" | "asked">} round
 * @param {Held} held
 * @param {number} [label]
 * @returns {Pair[]}
 */
export function readRecord(round, held, label = 0) {
  const { asked, campaign } = round;
  const plain = encodeRecord(campaign, held);
  const record = campaign.crossing ? campaign.crossing.of(plain, label) : plain;
  if (!asked) return record;
  return record
    .flatMap(({ code, level }) => {
      const place = asked.get(code);
      return place === undefined ? [] : [{ code: place, level }];
    })
    .sort((a, b) => a.code - b.code);
}

/**
 * @param {Pick<Campaign, "codes" | "names" | "other" | "valueRange" | "beyond">} campaign
 * @param {Held} held
 */
function encodeRecord(campaign, held) {
  const { codes, names, other } = campaign;
  /** @type {Map<number, number[]>} */
  const units = new Map();
  for (const [name, value] of entriesOf(held)) {
    if (typeof name !== "string" || typeof value !== "number") refuse("bad-record");
    const code = codes.get(name) ?? (other ? names.length - 1 : undefined);
    if (code === undefined || Number.isNaN(value)) continue;
    const unit = unitOf(value, campaign);
    const known = units.get(code);
    if (known) known.push(unit);
    else units.set(code, [unit]);
  }
  return [...units].map(([code, values]) => ({ code, level: levelOf(meanOf(values)) })).sort((a, b) => a.code - b.code);
}

/**
 * A value on the scale [-1, 1]; one beyond the range at an end of it, a bin beyond where those are counted apart.
 *
 * @param {number} value
 * @param {Pick<Campaign, "valueRange" | "beyond">} campaign
 */
function unitOf(value, { valueRange: [low, high], beyond }) {
  const unit = 2 * ((Math.min(Math.max(value, low), high) - low) / (high - low)) - 1;
  if (!beyond) return unit;
  if (value < low || value > high) return value < low ? -1 : 1;
  return unit * (1 - 2 / beyond);
}

/**
 * Names and values, whatever a record is made of; what holds none is refused.
 *
 * @param {Held} held
 * @returns {Iterable<[unknown, unknown]>}
 */
export function entriesOf(held) {
  if (held instanceof Map) return held;
  if (held === null || typeof held !== "object" || Array.isArray(held)) refuse("bad-record");
  return Object.entries(held);
}

/**
 * Added in one order and one by one, so that every device and language rounds alike.
 *
 * @param {number[]} values
 */
function meanOf(values) {
  return values.sort((a, b) => a - b).reduce((sum, unit) => sum + unit, 0) / values.length;
}

/**
 * The sampled pair, or DUMMY.
 *
 * @param {Pair[]} record
 * @param {number} pairsPerUser
 * @param {bigint} word
 */
export function samplePair(record, pairsPerUser, word) {
  return record[pick(word, Math.max(record.length, pairsPerUser))] ?? DUMMY;
}

/** @type {(level: bigint, word: bigint) => 1 | -1} */
export const roundToSign = (level, word) => (word < level ? 1 : -1);
/** @type {(record: Pair[], code: number) => bigint | undefined} */
export const levelIn = (record, code) => record.find((pair) => pair.code === code)?.level;

/**
 * The bin that holds a value.
 *
 * @param {bigint} level
 * @param {number} bins
 */
export const binOf = (level, bins) => Math.min(bins - 1, Number((level * BigInt(bins)) >> 64n));

/**
 * One of the two boundaries around a value, so that the mean is kept.
 *
 * @param {bigint} level
 * @param {number} bins
 * @param {bigint} word
 */
export function roundToBoundary(level, bins, word) {
  const scaled = level * BigInt(bins - 1);
  const below = scaled / FULL_LEVEL;
  return Number(below) + Number(word < scaled - below * FULL_LEVEL);
}
