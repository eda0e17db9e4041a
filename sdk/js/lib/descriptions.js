/**
 * The description of a round, read strictly: exactly its fields, each within bounds, or a refusal.
 *
 * Nothing in it is believed beyond what it asks: the campaign's id is the hash of its text, the noise is
 * calibrated here, the price follows from the noise.
 */
import { sha256, toHex, toUtf8 } from "./bytes.js";
import { demand, hasExactly, isObject, isWhole, parsed } from "./checks.js";
import { refuse } from "./codes.js";
import { parseFraction } from "./exact.js";
import { mechanismOf } from "./mechanisms.js";

const FORMAT = "keyveil-round/1";
const FIELDS = ["format", "campaign", "number", "purpose", "protocol", "group", "keys", "mechanism"];
const PURPOSE = /^[\x20-\x7e]{0,200}$/;
const PROTOCOL = /^[a-z0-9-]{1,40}\/[1-9][0-9]{0,4}$/;
const LARGEST_ROUND = 65535;

const LARGEST_CAMPAIGN = 2 ** 20;
const LARGEST_EPSILON = 32;
const MOST_KEYS = 32768;
const OTHER = "other";

/**
 * The round that a description describes (Python: `Campaign.device_config`), checked and calibrated.
 *
 * `pin` is the hash of everything that the description says; `price` is what an answer costs, in units of 2^-192.
 */
export async function readDescription(description) {
  demand(isObject(description) && Object.hasOwn(description, "format"));
  if (description.format !== FORMAT) refuse("unknown-version");
  demand(hasExactly(description, FIELDS));
  const { number, purpose, protocol } = description;
  const text = readText(description.campaign);
  const campaign = readCampaign(description.campaign);
  demand(isWhole(number, 1, LARGEST_ROUND));
  demand(typeof purpose === "string" && PURPOSE.test(purpose));
  demand(typeof protocol === "string" && PROTOCOL.test(protocol));
  const group = readGroup(description.group);
  const asked = readKeys(description.keys, campaign.names.length);
  const mechanism = mechanismOf(description.mechanism, asked?.size ?? campaign.names.length);
  const digest = await sha256(text);
  const id = toHex(digest);
  const pin = toHex(await sha256(toUtf8(canonical({ ...description, campaign: id }))));
  return { id, tag: digest.slice(0, 16), number, campaign, group, asked, mechanism, price: mechanism.price, pin };
}

/** One JSON text a value: keys sorted, no spaces. Lists hold texts and numbers alone. */
function canonical(value) {
  if (!isObject(value)) return JSON.stringify(value);
  const fields = Object.keys(value)
    .sort()
    .map((name) => `${JSON.stringify(name)}:${canonical(value[name])}`);
  return `{${fields.join()}}`;
}

function readGroup(ends) {
  demand(Array.isArray(ends) && ends.length === 2);
  const [low, high] = ends.map(parseFraction);
  demand(low !== null && high !== null && low.isBelow(high) && high.n <= high.d);
  return [low, high];
}

/** From a campaign's codes to the round's, or null where all keys are asked about. */
function readKeys(codes, nKeys) {
  if (codes === null) return null;
  demand(Array.isArray(codes) && 1 <= codes.length && codes.length <= nKeys);
  demand(codes.every((code) => isWhole(code, 0, nKeys - 1)));
  return placesOf(codes);
}

/** The place of each value; values that are not all different are refused. */
function placesOf(values) {
  const places = new Map();
  values.forEach((value, place) => places.set(value, place));
  demand(places.size === values.length);
  return places;
}

// --- the campaign ---

// Half a character, as it is or escaped; a canonical text escapes no whole one.
const HALF = /\p{Cs}|(?:^|[^\\])(?:\\\\)*\\ud/u;
const DEEPEST = 2;

const isText = (value) => typeof value === "string";
const isNumber = (value) => typeof value === "number" && Number.isFinite(value);
const isCount = (value) => isWhole(value, 1, Number.MAX_SAFE_INTEGER);

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
// A campaign's text leaves out those that are not set.
const OPTIONAL = {
  bins: Number.isSafeInteger,
  cohorts: Number.isSafeInteger,
  rho: (value) => isNumber(value) && Math.abs(value) <= 1,
  rounds: Number.isSafeInteger,
  users: isCount,
  // Whoever draws their own ids says nothing.
  ids: (value) => value === "issued",
};
const RULES = { ...REQUIRED, ...OPTIONAL };

function isKeys(names) {
  const isMany = Array.isArray(names) && 1 <= names.length && names.length <= MOST_KEYS;
  return isMany && names.every((name) => isText(name) && name !== "");
}

function isRange(ends) {
  if (!Array.isArray(ends) || ends.length !== 2 || !ends.every(isNumber)) return false;
  return ends[0] < ends[1] && Number.isFinite(ends[1] - ends[0]);
}

/** The bytes of a campaign's text, which has not too many. */
function readText(text) {
  demand(isText(text) && text.length <= LARGEST_CAMPAIGN);
  const bytes = toUtf8(text);
  demand(bytes.length <= LARGEST_CAMPAIGN);
  return bytes;
}

/** What a device needs of a campaign, from its canonical text. */
function readCampaign(text) {
  demand(isShallow(text) && !HALF.test(text));
  const said = parsed(text);
  demand(isObject(said) && Object.keys(REQUIRED).every((name) => Object.hasOwn(said, name)));
  demand(Object.entries(said).every(([name, value]) => Object.hasOwn(RULES, name) && RULES[name](value)));
  demand(canonicalCampaign(said) === text);
  const { name, epsilon, keys, value_range: valueRange, other, owner, purpose, expires } = said;
  const names = other ? [...keys, OTHER] : keys;
  return {
    name,
    epsilon,
    names,
    codes: placesOf(names),
    other,
    valueRange,
    owner,
    purpose,
    issuesIds: said.ids === "issued",
    end: expires ? endOf(expires) : Infinity,
  };
}

/** Whether a JSON text is nested no deeper than a campaign's; parsing one that is takes long. */
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

/** The one text of a campaign: as `canonical`, with the fields that are floats written as Python writes them. */
function canonicalCampaign(said) {
  const floats = { epsilon: floatText, rho: floatText, value_range: (ends) => `[${ends.map(floatText).join()}]` };
  const fields = Object.keys(said)
    .sort()
    .map((name) => `"${name}":${(floats[name] ?? JSON.stringify)(said[name])}`);
  return `{${fields.join()}}`;
}

/** A float as Python writes it: the same digits as here, with ".0" behind a whole number and exponents of its own. */
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
 */
export function endOf(expires) {
  const [, year, month, day, hour, minute, second, rest, zone] = (isText(expires) && MOMENT.exec(expires)) || [];
  if (year === undefined || !(1 <= year && year <= 9998)) return null;
  const date = new Date(0);
  date.setUTCFullYear(Number(year), month - 1, Number(day));
  if (date.getUTCMonth() !== month - 1 || date.getUTCDate() !== Number(day)) return null;
  if (hour === undefined) return date.getTime() + DAY;
  if (hour > 23 || minute > 59 || second > 59) return null;
  const offset = zoneMinutes(zone);
  if (offset === null) return null;
  const seconds = Number(second ?? 0) + Number(`0.${rest ?? 0}`);
  return date.getTime() + (60 * hour + Number(minute) - offset) * MINUTE + 1000 * seconds;
}

function zoneMinutes(zone = "Z") {
  if (zone === "Z") return 0;
  const [hours, minutes] = [Number(zone.slice(1, 3)), Number(zone.slice(4))];
  if (hours > 23 || minutes > 59) return null;
  return (zone[0] === "-" ? -1 : 1) * (60 * hours + minutes);
}
