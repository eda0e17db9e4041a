/** What a description or a ledger is made of, asked before it is used. */
import { refuse } from "./codes.js";

/** Refuses a description that is not what it must be. */
export function demand(isRight) {
  if (!isRight) refuse("bad-description");
}

export const isObject = (value) => value !== null && typeof value === "object" && !Array.isArray(value);

/** Whether an object has exactly these fields. */
export function hasExactly(value, names) {
  return (
    isObject(value) && Object.keys(value).length === names.length && names.every((name) => Object.hasOwn(value, name))
  );
}

/** Whether a value is a whole number within bounds. */
export const isWhole = (value, least, most) => Number.isSafeInteger(value) && least <= value && value <= most;

/** The value of a JSON text; a refusal where it is none. */
export function parsed(text, code = "bad-description") {
  try {
    return JSON.parse(text);
  } catch {
    return refuse(code);
  }
}
