/**
 * The public dither: values round to signs by a word that everybody can compute from the report's id.
 *
 * Given the id the rounding is a function of values, so the kernel behind it, and its epsilon, are what they
 * were; over ids the signs have the law they had. Collectors count reports apart by the word's leading bits.
 */
import { isWhole } from "./checks.js";
import { FULL_LEVEL, roundToSign } from "./records.js";
import { mix } from "./numerics/mixing.js";

/** @import { Pair, Round } from "../index.d.ts" */

/** What a round has that says nothing of a dither; the most bins in which reports are counted. */
export const UNDITHERED = 1;
const MOST_BINS = 256;

/**
 * Whether a value is a number of bins that a description may say.
 *
 * @param {unknown} bins
 * @returns {bins is number}
 */
export function isDither(bins) {
  return isWhole(bins, UNDITHERED + 1, MOST_BINS) && (bins & (bins - 1)) === 0;
}

/**
 * The word by which all values of a report are rounded.
 *
 * @param {Uint8Array} reportId
 */
export function ditherOf(reportId) {
  const view = new DataView(reportId.buffer, reportId.byteOffset, reportId.byteLength);
  const [low, high] = [view.getBigUint64(0, true), view.getBigUint64(8, true)];
  return mix(mix(low + 1n) ^ BigInt.asUintN(64, high + 1n));
}

/**
 * What the mechanism is given of a record: its values rounded by the id's word where the round has a dither.
 *
 * @param {Pick<Round, "dither">} round
 * @param {Pair[]} record
 * @param {Uint8Array} reportId
 * @returns {Pair[]}
 */
export function roundedFor({ dither }, record, reportId) {
  if (dither === UNDITHERED) return record;
  const word = ditherOf(reportId);
  return record.map(({ code, level }) => ({ code, level: roundToSign(level, word) > 0 ? FULL_LEVEL : 0n }));
}
