/**
 * The campaign inside a description: its one canonical text, read strictly.
 *
 * The campaign's id is the hash of that text, so a text that says the same in other letters is refused.
 */
import { demand, isObject, isWhole, parsed, placesOf } from "../checks.js";
import { toUtf8 } from "../numerics/bytes.js";
import { isPairs, labelledOf, pairsOf } from "../crossing.js";
import { isDither } from "../dither.js";
import { isSegments, segmentsOf } from "./segments.js";
import { endingOf, isSeries, wholeOf } from "./series.js";

/**
 * @import { Campaign } from "../../index.d.ts"
 * @import { SegmentsText } from "./segments.js"
 * @import { SeriesText } from "./series.js"
 *
 * @typedef {object} CampaignText what the text says, of which a device reads these fields
 * @property {string} name
 * @property {number} epsilon
 * @property {string[]} keys
 * @property {string[]} [names]
 * @property {[number, number]} value_range
 * @property {string} mechanism
 * @property {boolean} other
 * @property {number} [dither]
 * @property {true} [beyond]
 * @property {"issued"} [ids]
 * @property {"allowed" | "required"} [relay]
 * @property {number} [batch]
 * @property {number} [central_epsilon]
 * @property {number} [delta]
 * @property {number} [honest]
 * @property {SeriesText} [series]
 * @property {SegmentsText} [segments]
 * @property {string | string[]} [pairs]
 * @property {string} owner
 * @property {string} purpose
 * @property {string} expires
 */

const LARGEST_CAMPAIGN = 2 ** 20;
const LARGEST_EPSILON = 32;
const MOST_KEYS = 32768;
const LONGEST_UNIT = 40;
// The least number of bins of which two can be spared for values beyond the range.
const FEWEST_BEYOND = 4;
const OTHER = "other";
const LARGEST_BATCH = 2 ** 31;
/**
 * Of each method that asks groups of devices: where a relay carries reports, a round asks one in so many at least, so
 * that they hide each other. All others ask every device.
 *
 * @type {ReadonlyMap<string, number>}
 */
const ONE_IN = new Map([
  ["auto", 100],
  ["ks-grr", 10],
]);
const WANTS = ["frequency", "mean", "distribution", "both"];

// Half a character, as it is or escaped; a canonical text escapes no whole one.
const HALF = /\p{Cs}|(?:^|[^\\])(?:\\\\)*\\ud/u;
const DEEPEST = 3;

/** @type {(value: unknown) => value is string} */
const isText = (value) => typeof value === "string";
/**
 * @param {unknown} value
 * @returns {value is number}
 */
function isNumber(value) {
  return typeof value === "number" && Number.isFinite(value);
}
const isCount = (/** @type {unknown} */ value) => isWhole(value, 1, Number.MAX_SAFE_INTEGER);

/** @type {Readonly<Record<string, (value: unknown) => boolean>>} */
const REQUIRED = {
  name: isText,
  epsilon: (value) => isNumber(value) && 0 < value && value <= LARGEST_EPSILON,
  keys: isKeys,
  value_range: isRange,
  pairs_per_user: isCount,
  mechanism: isText,
  other: (value) => typeof value === "boolean",
  owner: isText,
  purpose: isText,
  expires: (value) => value === "" || endOf(value) !== null,
};
/**
 * A campaign's text leaves out those that are not set.
 *
 * @type {Readonly<Record<string, (value: unknown) => boolean>>}
 */
const OPTIONAL = {
  bins: Number.isSafeInteger,
  cohorts: Number.isSafeInteger,
  rho: (value) => isNumber(value) && Math.abs(value) <= 1,
  rounds: Number.isSafeInteger,
  users: isCount,
  want: (value) => isText(value) && WANTS.includes(value),
  unit: (value) => isText(value) && 0 < value.length && [...value].length <= LONGEST_UNIT,
  names: isKeys,
  // Where no word of the id rounds values, nothing is said.
  dither: isDither,
  // Where values beyond the range are moved to its ends, nothing is said.
  beyond: (value) => value === true,
  // Whoever draws their own ids says nothing.
  ids: (value) => value === "issued",
  // What no relay carries says nothing of one.
  relay: (value) => value === "allowed" || value === "required",
  batch: (value) => isWhole(value, 2, LARGEST_BATCH),
  central_epsilon: (value) => isNumber(value) && 0 < value,
  delta: (value) => isNumber(value) && 0 < value && value < 1,
  honest: (value) => isNumber(value) && 0 < value && value <= 1,
  // What is asked once says nothing of a series.
  series: isSeries,
  // What tells nobody apart says nothing of segments.
  segments: isSegments,
  // What asks about keys alone says nothing of pairs.
  pairs: isPairs,
};
const RULES = { ...REQUIRED, ...OPTIONAL };

/** @param {unknown} names */
function isKeys(names) {
  const isMany = Array.isArray(names) && 1 <= names.length && names.length <= MOST_KEYS;
  return isMany && names.every((name) => isText(name) && name !== "");
}

/** @param {unknown} ends */
function isRange(ends) {
  if (!Array.isArray(ends) || ends.length !== 2 || !ends.every(isNumber)) return false;
  return ends[0] < ends[1] && Number.isFinite(ends[1] - ends[0]);
}

/**
 * A campaign's text, if it is one of not too many bytes.
 *
 * @param {unknown} text
 */
export function readText(text) {
  demand(isText(text) && text.length <= LARGEST_CAMPAIGN && toUtf8(text).length <= LARGEST_CAMPAIGN);
  return text;
}

/**
 * What a device needs of a campaign, from its canonical text.
 *
 * @param {string} text
 * @returns {Campaign}
 */
export function readCampaign(text) {
  demand(isShallow(text) && !HALF.test(text));
  const said = parsed(text);
  demand(isObject(said) && Object.keys(REQUIRED).every((name) => Object.hasOwn(said, name)));
  demand(Object.entries(said).every(([name, value]) => Object.hasOwn(RULES, name) && RULES[name](value)));
  demand(canonicalCampaign(said) === text);
  const fields = /** @type {CampaignText} */ (/** @type {unknown} */ (said));
  demand(fields.names === undefined || fields.names.length === fields.keys.length);
  const { name, epsilon, keys, value_range: valueRange, other, dither = 1, beyond, owner, purpose, expires } = fields;
  demand(!beyond || dither >= FEWEST_BEYOND);
  demand(isRelayed(fields));
  const series = seriesOf(fields);
  const names = other ? [...keys, OTHER] : keys;
  const codes = placesOf(names);
  const segments = fields.segments === undefined ? null : segmentsOf(fields.segments);
  const crossing = crossingOf(fields.pairs, segments, codes);
  return {
    name,
    epsilon,
    names,
    codes,
    crossing,
    nCodes: crossing?.nCodes ?? names.length,
    other,
    valueRange,
    beyond: beyond ? dither : 0,
    owner,
    purpose,
    issuesIds: fields.ids === "issued",
    relay: fields.relay ?? "none",
    series,
    segments,
    end: Math.min(endOf(expires) ?? Infinity, fields.series ? endingOf(fields.series) : Infinity),
    oneIn: ONE_IN.get(fields.mechanism.split(":")[0]) ?? 1,
  };
}

/**
 * What is asked about instead of keys; null where that is keys.
 *
 * @param {string | string[] | undefined} pairs
 * @param {Campaign["segments"]} segments
 * @param {ReadonlyMap<string, number>} codes
 */
function crossingOf(pairs, segments, codes) {
  if (segments?.told === "private") {
    demand(pairs === undefined && segments.attributes.length === 1);
    return labelledOf(1 + segments.attributes[0].values.length, codes.size);
  }
  return pairs === undefined ? null : pairsOf(pairs, codes);
}

/**
 * The series of which a campaign is a wave, with its own text; null for a campaign that is asked once. Devices answer
 * waves, so the text of a series as a whole is no campaign of theirs.
 *
 * @param {CampaignText} fields
 * @returns {Campaign["series"]}
 */
function seriesOf(fields) {
  if (fields.series === undefined) return null;
  const { every, waves, answers, wave, first_keys: firstKeys = 0 } = fields.series;
  demand(wave !== undefined && firstKeys < fields.keys.length);
  const text = canonicalCampaign(wholeOf(/** @type {never} */ (fields), fields.series));
  return { text, every, waves, answers, wave, ends: endingOf(fields.series) };
}

/**
 * Whether what is said of a relay can be kept: batches where there is one, no ids that tell the collector who sent
 * what, and a central promise as a whole or not at all, only where nothing comes directly.
 *
 * @param {CampaignText} fields
 */
function isRelayed({ relay, batch, ids, epsilon, central_epsilon: central, delta, honest }) {
  const parts = [central, delta, honest].filter((part) => part !== undefined).length;
  if ((relay === undefined) !== (batch === undefined) || (relay !== undefined && ids === "issued")) return false;
  return parts === 0 || (parts === 3 && relay === "required" && Number(central) <= epsilon);
}

/**
 * Whether a JSON text is nested no deeper than a campaign's; parsing one that is takes long.
 *
 * @param {string} text
 */
function isShallow(text) {
  let depth = 0;
  let isQuoted = false;
  for (let at = 0; at < text.length; at++) {
    const letter = text[at];
    if (letter === "\\" && isQuoted) at++;
    else if (letter === '"') isQuoted = !isQuoted;
    else if (isQuoted) continue;
    else if (letter === "[" || letter === "{") {
      if (++depth > DEEPEST) return false;
    } else if (letter === "]" || letter === "}") depth--;
  }
  return true;
}

/**
 * The one text of a campaign: keys sorted, no spaces, the fields that are floats written as Python writes them.
 *
 * @param {Record<string, any>} said
 */
function canonicalCampaign(said) {
  /** @type {Record<string, (value: any) => string>} */
  const floats = {
    epsilon: floatText,
    central_epsilon: floatText,
    delta: floatText,
    honest: floatText,
    rho: floatText,
    value_range: (/** @type {number[]} */ ends) => `[${ends.map(floatText).join()}]`,
    series: sortedText,
    segments: sortedText,
  };
  const fields = Object.keys(said)
    .sort()
    .map((name) => `"${name}":${(floats[name] ?? JSON.stringify)(said[name])}`);
  return `{${fields.join()}}`;
}

/**
 * A table of a campaign's text: its fields sorted by their names, none of which has a letter before the comma.
 *
 * @param {object} table
 */
const sortedText = (table) => JSON.stringify(Object.fromEntries(Object.entries(table).sort()));

/**
 * A float as Python writes it: the same digits as here, with ".0" behind a whole number and exponents of its own.
 *
 * @param {number} number
 */
export function floatText(number) {
  if (Object.is(number, -0)) return "-0.0";
  const [digits, exponent] = number.toExponential().split("e");
  const power = Number(exponent);
  if (power < -4 || power >= 16) return `${digits}e${power < 0 ? "-" : "+"}${String(Math.abs(power)).padStart(2, "0")}`;
  const text = power < 0 ? number.toFixed(digits.replace(/[-.]/g, "").length - 1 - power) : String(number);
  return text.includes(".") ? text : `${text}.0`;
}

const MOMENT = /^(\d{4})-(\d\d)-(\d\d)(?:[T ](\d\d):(\d\d)(?::(\d\d)(?:\.(\d{1,6}))?)?(Z|[+-]\d\d:\d\d)?)?$/;
const MINUTE = 60_000;
const DAY = 1440 * MINUTE;

/**
 * The moment from which a campaign is over, in milliseconds since 1970, or null for what is no date.
 *
 * A bare date includes its day; a time without a zone is UTC.
 *
 * @param {unknown} expires
 */
export function endOf(expires) {
  const found = isText(expires) ? MOMENT.exec(expires) : null;
  if (found === null) return null;
  const [year, month, day, hour, minute, second] = found.slice(1, 7).map((digits) => Number(digits ?? 0));
  const [hourText, rest = "0", zone] = [found[4], found[7], found[8]];
  if (!(1 <= year && year <= 9998)) return null;
  const date = new Date(0);
  date.setUTCFullYear(year, month - 1, day);
  if (date.getUTCMonth() !== month - 1 || date.getUTCDate() !== day) return null;
  if (hourText === undefined) return date.getTime() + DAY;
  if (hour > 23 || minute > 59 || second > 59) return null;
  const offset = zoneMinutes(zone);
  if (offset === null) return null;
  return date.getTime() + (60 * hour + minute - offset) * MINUTE + 1000 * (second + Number(`0.${rest}`));
}

/** @param {string} [zone] */
function zoneMinutes(zone = "Z") {
  if (zone === "Z") return 0;
  const [hours, minutes] = [Number(zone.slice(1, 3)), Number(zone.slice(4))];
  if (hours > 23 || minutes > 59) return null;
  return (zone[0] === "-" ? -1 : 1) * (60 * hours + minutes);
}
