/** What a description or a ledger is made of, asked before it is used. */
import { refuse } from "./refusals.js";

/**
 * Refuses a description that is not what it must be.
 *
 * @param {boolean} isRight
 * @returns {asserts isRight}
 */
export function demand(isRight) {
  if (!isRight) refuse("bad-description");
}

/**
 * @param {unknown} value
 * @returns {value is Record<string, unknown>}
 */
export function isObject(value) {
  return value !== null && typeof value === "object" && !Array.isArray(value);
}

/**
 * Whether an object has exactly these fields.
 *
 * @param {unknown} value
 * @param {readonly string[]} names
 * @returns {value is Record<string, unknown>}
 */
export function hasExactly(value, names) {
  return (
    isObject(value) && Object.keys(value).length === names.length && names.every((name) => Object.hasOwn(value, name))
  );
}

/**
 * Whether a value is a whole number within bounds.
 *
 * @param {unknown} value
 * @param {number} least
 * @param {number} most
 * @returns {value is number}
 */
export function isWhole(value, least, most) {
  return typeof value === "number" && Number.isSafeInteger(value) && least <= value && value <= most;
}

/**
 * The value of a JSON text; a refusal where it is none.
 *
 * @param {string} text
 * @returns {unknown}
 */
export function parsed(text, code = "bad-description") {
  try {
    return JSON.parse(text);
  } catch {
    return refuse(code);
  }
}

/**
 * The place of each value; values that are not all different are refused.
 *
 * @template T
 * @param {readonly T[]} values
 * @returns {Map<T, number>}
 */
export function placesOf(values) {
  const places = new Map();
  values.forEach((value, place) => places.set(value, place));
  demand(places.size === values.length);
  return places;
}
