/**
 * A series: one question asked in waves, of which a device answers a few.
 *
 * A wave is a campaign whose text says the series and the wave. The series' own text is the wave's without `wave`, and
 * with the keys that the series began with; its hash is the series' id. So a device works out what it takes part in,
 * and believes nobody. Waves begin at midnight UTC, a calendar's day, week or month after one another.
 */
import { hasExactly, isObject, isWhole } from "../checks.js";

/**
 * @import { Series } from "../../index.d.ts"
 *
 * @typedef {object} SeriesText what a campaign's text says of its series
 * @property {"day" | "week" | "month"} every
 * @property {number} waves
 * @property {number} answers
 * @property {string} [start]
 * @property {number} [wave]
 * @property {number} [first_keys]
 */

const MOST_WAVES = 1000;
const DAYS = Object.freeze({ day: 1, week: 7 });
// A month has no later day in every year.
const LAST_DAY = 28;
const LAST_YEAR = 9998;
const DATE = /^(\d{4})-(\d\d)-(\d\d)$/;
const NEEDED = ["every", "waves", "answers"];
const OPTIONAL = ["start", "wave", "first_keys"];

/**
 * Whether a value is what a canonical text says of a series, or of a wave of one.
 *
 * @param {unknown} said
 * @returns {said is SeriesText}
 */
export function isSeries(said) {
  if (!isObject(said)) return false;
  const { every, waves, answers, start, wave, first_keys: firstKeys } = said;
  return (
    hasExactly(said, [...NEEDED, ...OPTIONAL.filter((name) => Object.hasOwn(said, name))]) &&
    (every === "day" || every === "week" || every === "month") &&
    isWhole(waves, 2, MOST_WAVES) &&
    isWhole(answers, 1, waves) &&
    (!Object.hasOwn(said, "start") || isStart(start, every, waves)) &&
    (!Object.hasOwn(said, "wave") || (isWhole(wave, 1, waves) && start !== undefined)) &&
    (!Object.hasOwn(said, "first_keys") || (isWhole(firstKeys, 1, 2 ** 31) && wave !== undefined))
  );
}

/**
 * The moment from which a wave is asked, in milliseconds since 1970; the one after the last is the series' end.
 *
 * @param {Pick<SeriesText, "every" | "start">} series
 * @param {number} wave
 */
export function beginOf({ every, start }, wave) {
  const [year, month, day] = (DATE.exec(start ?? "") ?? []).slice(1).map(Number);
  const date = new Date(0);
  if (every === "month") date.setUTCFullYear(year, month - 1 + wave - 1, day);
  else date.setUTCFullYear(year, month - 1, day + DAYS[every] * (wave - 1));
  return date.getTime();
}

/**
 * When nothing more is asked: of a wave, or of the whole series; never where there is no start.
 *
 * @param {SeriesText} series
 */
export const endingOf = (series) =>
  series.start === undefined ? Infinity : beginOf(series, (series.wave ?? series.waves) + 1);

/**
 * The waves that a device answers, evenly spread from its own first one. Its place is a number out of 2^256.
 *
 * @param {Pick<Series, "waves" | "answers">} series
 * @param {bigint} place
 */
export function panelOf({ waves, answers }, place) {
  const first = Number((place * BigInt(waves)) >> 256n);
  const turns = Array.from({ length: answers }, (_, turn) => Math.floor((turn * waves) / answers));
  return turns.map((steps) => 1 + ((first + steps) % waves)).sort((one, other) => one - other);
}

/**
 * What the text of a wave's series says: no wave, and the keys that the series began with.
 *
 * @template {{ keys: string[], names?: string[], series?: SeriesText }} T
 * @param {T} said
 * @param {SeriesText} series
 * @returns {T}
 */
export function wholeOf(said, { every, waves, answers, start, first_keys: firstKeys }) {
  const whole = { ...said, keys: said.keys.slice(0, firstKeys), series: { every, waves, answers, start } };
  return said.names ? { ...whole, names: said.names.slice(0, firstKeys) } : whole;
}

/**
 * @param {unknown} start
 * @param {"day" | "week" | "month"} every
 * @param {number} waves
 */
function isStart(start, every, waves) {
  const found = typeof start === "string" ? DATE.exec(start) : null;
  if (found === null || typeof start !== "string") return false;
  const [year, month, day] = found.slice(1).map(Number);
  const date = new Date(0);
  date.setUTCFullYear(year, month - 1, day);
  const isDate = year > 0 && date.getUTCMonth() === month - 1 && date.getUTCDate() === day;
  if (!isDate || (every === "month" && day > LAST_DAY)) return false;
  return new Date(beginOf({ every, start }, waves + 1)).getUTCFullYear() <= LAST_YEAR;
}
