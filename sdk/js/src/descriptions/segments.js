/**
 * Segments: the few groups by which a campaign tells its users apart, such as platforms or countries.
 *
 * An attribute has a name and a few values that the campaign declares. A label is the number of a user's value: 0 is
 * "other", which is whatever is not declared or not said, 1 the first that is. Attributes lie in the order of their
 * names.
 */
import { isObject } from "../checks.js";

/**
 * @import { Labels, Segments } from "../../index.d.ts"
 *
 * @typedef {{ told: "clear" | "private" } & Record<string, string[] | string>} SegmentsText what a campaign's text says
 */

const MOST_ATTRIBUTES = 4;
const MOST_VALUES = 64;
const LONGEST_VALUE = 80;
const OTHER = "other";
const TOLD = ["clear", "private"];
const NAME = /^[a-z][a-z0-9_-]{0,39}$/;

/**
 * Whether a value is what a canonical text says of segments.
 *
 * @param {unknown} said
 * @returns {said is SegmentsText}
 */
export function isSegments(said) {
  if (!isObject(said) || typeof said.told !== "string" || !TOLD.includes(said.told)) return false;
  const attributes = Object.entries(said).filter(([name]) => name !== "told");
  if (!(1 <= attributes.length && attributes.length <= MOST_ATTRIBUTES)) return false;
  return attributes.every(([name, values]) => NAME.test(name) && areValues(values));
}

/** @param {unknown} values */
function areValues(values) {
  if (!Array.isArray(values) || !(1 <= values.length && values.length <= MOST_VALUES)) return false;
  return values.every(isValue) && new Set(values).size === values.length;
}

/** @param {unknown} value */
function isValue(value) {
  if (typeof value !== "string" || value === OTHER) return false;
  return value !== "" && [...value].length <= LONGEST_VALUE;
}

/**
 * The segments of a text, attributes in the order of their names.
 *
 * @param {SegmentsText} said
 * @returns {Segments}
 */
export function segmentsOf({ told, ...said }) {
  const names = Object.keys(said).sort();
  return { told, attributes: names.map((name) => ({ name, values: /** @type {string[]} */ (said[name]) })) };
}

/**
 * How many values each attribute declares whose label a report carries in the clear.
 *
 * @param {Segments | null} segments
 */
export const clearSizes = (segments) =>
  segments?.told === "clear" ? segments.attributes.map(({ values }) => values.length) : [];

/**
 * A user's label of each attribute; those that the campaign does not name are left out.
 *
 * @param {Segments} segments
 * @param {Labels} said
 */
function labelsOf({ attributes }, said) {
  return attributes.map(({ name, values }) => {
    const value = Object.hasOwn(said, name) ? said[name] : undefined;
    return typeof value === "string" ? 1 + values.indexOf(value) : 0;
  });
}

/**
 * The labels that every report carries in the clear.
 *
 * @param {Segments | null} segments
 * @param {Labels} said
 */
export const clearLabels = (segments, said) => (segments?.told === "clear" ? labelsOf(segments, said) : []);

/**
 * The label that is hidden in an answer; 0 where there is none.
 *
 * @param {Segments | null} segments
 * @param {Labels} said
 */
export const privateLabel = (segments, said) => (segments?.told === "private" ? labelsOf(segments, said)[0] : 0);

/**
 * What clear labels say, in words: "platform ios, country other".
 *
 * @param {Segments} segments
 * @param {readonly number[]} labels
 */
export function wordsOf({ attributes }, labels) {
  return attributes.map(({ name, values }, place) => `${name} ${[OTHER, ...values][labels[place]]}`).join(", ");
}
