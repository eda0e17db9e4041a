/**
 * The description of a round, read strictly: exactly its fields, each within bounds, or a refusal.
 *
 * Nothing in it is believed beyond what it asks: the campaign's id is the hash of its text, the noise is
 * calibrated here, the price follows from the noise.
 */
import { demand, hasExactly, isObject, isWhole, placesOf } from "../checks.js";
import { mechanismOf } from "../mechanisms/named.js";
import { sha256, toHex, toUtf8 } from "../numerics/bytes.js";
import { parseFraction } from "../numerics/exact.js";
import { refuse } from "../refusals.js";
import { isDither, UNDITHERED } from "../dither.js";
import { readCampaign, readText } from "./campaign.js";
import { clearSizes } from "./segments.js";

/**
 * @import { Campaign, Mechanism, Round } from "../../index.d.ts"
 * @import { Ratio } from "../numerics/exact.js"
 */

const FIELDS = ["format", "campaign", "number", "purpose", "protocol", "group", "keys", "mechanism"];
/** @type {ReadonlyMap<unknown, string[]>} */
const FORMATS = new Map([
  ["keyveil-round/1", FIELDS],
  ["keyveil-round/2", [...FIELDS, "dither"]],
  ["keyveil-round/3", [...FIELDS, "dither", "labels"]],
]);
const PURPOSE = /^[\x20-\x7e]{0,200}$/;
const PROTOCOL = /^[a-z0-9-]{1,40}\/[1-9][0-9]{0,4}$/;
const LARGEST_ROUND = 65535;

/**
 * The round that a description describes (Python: `Campaign.device_config`), checked and calibrated.
 *
 * `pin` is the hash of everything that the description says; `price` is what an answer costs, in units of 2^-192.
 *
 * @param {unknown} description
 * @returns {Promise<Round>}
 */
export async function readDescription(description) {
  const said = described(description);
  return readRound(said, await readHashed(said.campaign));
}

/**
 * The open round in a collector's answer about the campaign with this id. The answer says the campaign's text once:
 * the round beside it names the campaign by its id. A text with another hash is refused, whatever the round says.
 *
 * @param {{ campaign: unknown, round: unknown }} view
 * @param {string} id
 * @returns {Promise<Round>}
 */
export async function readView({ campaign, round }, id) {
  const hashed = await readHashed(campaign);
  if (toHex(hashed.digest) !== id) refuse("other-campaign");
  return openRound({ campaign, round }, hashed);
}

/**
 * The open round in a collector's answer about the open wave of the series with this id: what it says of any campaign.
 * A wave whose text does not lead to that series is refused.
 *
 * @param {{ campaign: unknown, round: unknown }} view
 * @param {string} series
 * @returns {Promise<Round>}
 */
export async function readWave(view, series) {
  const hashed = await readHashed(view.campaign);
  if (hashed.series !== series) refuse("other-campaign");
  return openRound(view, hashed);
}

/**
 * @param {{ campaign: unknown, round: unknown }} view
 * @param {{ campaign: Campaign, series: string | null, digest: Uint8Array }} hashed
 */
function openRound({ campaign, round }, hashed) {
  if (round === null) refuse("waiting");
  const said = described(round);
  if (said.campaign !== toHex(hashed.digest) && said.campaign !== campaign) refuse("other-campaign");
  return readRound(said, hashed);
}

/**
 * A description that has its fields; what they say is not looked at.
 *
 * @param {unknown} description
 */
function described(description) {
  demand(isObject(description) && Object.hasOwn(description, "format"));
  const fields = FORMATS.get(description.format) ?? refuse("unknown-version");
  demand(hasExactly(description, fields));
  return description;
}

/**
 * A campaign, the hash of its text, and the id of its series, if it is a wave of one.
 *
 * @param {unknown} said
 */
async function readHashed(said) {
  const text = readText(said);
  const campaign = readCampaign(text);
  const series = campaign.series && toHex(await sha256(toUtf8(campaign.series.text)));
  return { campaign, series, digest: await sha256(toUtf8(text)) };
}

/**
 * @param {Record<string, unknown>} said
 * @param {{ campaign: Campaign, series: string | null, digest: Uint8Array }} hashed
 * @returns {Promise<Round>}
 */
async function readRound(said, { campaign, series, digest }) {
  const { number, purpose, protocol } = said;
  demand(isWhole(number, 1, LARGEST_ROUND));
  demand(typeof purpose === "string" && PURPOSE.test(purpose));
  demand(typeof protocol === "string" && PROTOCOL.test(protocol));
  const group = readGroup(said.group);
  requirePart(group, campaign);
  const asked = readKeys(said.keys, campaign.nCodes);
  const mechanism = mechanismOf(said.mechanism, asked?.size ?? campaign.nCodes);
  const dither = readDither(said, mechanism);
  const labels = readLabels(said, campaign);
  const id = toHex(digest);
  const pin = toHex(await sha256(toUtf8(canonical({ ...said, campaign: id }))));
  const tag = digest.slice(0, 16);
  return { id, tag, number, campaign, series, group, asked, mechanism, dither, labels, price: mechanism.price, pin };
}

/**
 * In how many bins reports are counted by the word that rounds their values; whoever says it says that there is one,
 * but for a round with labels, which always says.
 *
 * @param {Record<string, unknown>} said
 * @param {Mechanism} mechanism
 */
function readDither(said, mechanism) {
  const isUnsaid = !Object.hasOwn(said, "dither");
  if (isUnsaid || (Object.hasOwn(said, "labels") && said.dither === UNDITHERED)) return UNDITHERED;
  demand(isDither(said.dither) && mechanism.tellsSigns === true);
  return said.dither;
}

/**
 * How many values each attribute declares whose label a report carries: what the campaign says, or a refusal.
 *
 * @param {Record<string, unknown>} said
 * @param {Campaign} campaign
 * @returns {readonly number[]}
 */
function readLabels(said, { segments }) {
  const sizes = clearSizes(segments);
  const labels = Object.hasOwn(said, "labels") ? said.labels : [];
  demand(Array.isArray(labels) && labels.length === sizes.length && sizes.every((size, at) => labels[at] === size));
  return sizes;
}

/**
 * One JSON text a value: keys sorted, no spaces. Lists hold texts and numbers alone.
 *
 * @param {unknown} value
 * @returns {string}
 */
function canonical(value) {
  if (!isObject(value)) return JSON.stringify(value);
  const fields = Object.keys(value)
    .sort()
    .map((name) => `${JSON.stringify(name)}:${canonical(value[name])}`);
  return `{${fields.join()}}`;
}

/**
 * @param {unknown} ends
 * @returns {[Ratio, Ratio]}
 */
function readGroup(ends) {
  demand(Array.isArray(ends) && ends.length === 2);
  const [low, high] = ends.map(parseFraction);
  demand(low !== null && high !== null && low.isBelow(high) && high.n <= high.d);
  return [low, high];
}

/**
 * Batches are as much smaller as a group is: which part of the devices is asked must not be the collector's word.
 *
 * @param {[Ratio, Ratio]} group
 * @param {Campaign} campaign
 */
function requirePart([low, high], { relay, oneIn }) {
  if (relay !== "none" && high.minus(low).times(oneIn).isBelow(1)) refuse("small-group");
}

/**
 * From a campaign's codes to the round's, or null where all keys are asked about.
 *
 * @param {unknown} codes
 * @param {number} nKeys
 */
function readKeys(codes, nKeys) {
  if (codes === null) return null;
  demand(Array.isArray(codes) && 1 <= codes.length && codes.length <= nKeys);
  demand(codes.every((code) => isWhole(code, 0, nKeys - 1)));
  return placesOf(/** @type {number[]} */ (codes));
}
