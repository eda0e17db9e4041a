/** What an application may set, with its defaults; what cannot be meant is refused before anything is read. */
import { isObject } from "../checks.js";
import { BrowserLedger, hasIndexedDb } from "../ledgers/browser.js";
import { randomBytes } from "../numerics/bytes.js";
import { refuse } from "../refusals.js";
import { checkAddress, checkToken, ownFetch, TIMEOUT } from "./transport.js";

/**
 * @import { Labels, Ledger, Options, Relay } from "../../index.d.ts"
 *
 * @typedef {object} Settled options as the device reads them
 * @property {string} [url]
 * @property {Relay} [relay]
 * @property {string} [token]
 * @property {Options["ids"]} [ids]
 * @property {Labels} segments
 * @property {Ledger} ledger
 * @property {number} campaignCap
 * @property {number} lifetimeCap
 * @property {number | null} yearlyCap
 * @property {number} mostQueued
 * @property {number} mostQueuedBytes
 * @property {number} batch
 * @property {number} firstWait
 * @property {number} longestWait
 * @property {number} timeout
 * @property {typeof globalThis.fetch} fetch
 * @property {() => number} now
 * @property {object} environment
 * @property {(size: number) => Uint8Array} entropy
 */

const DEFAULTS = {
  segments: {},
  campaignCap: 4,
  lifetimeCap: 16,
  yearlyCap: null,
  mostQueued: 100,
  mostQueuedBytes: 1 << 20,
  batch: 50,
  firstWait: 1_000,
  longestWait: 3_600_000,
  timeout: TIMEOUT,
  // The noise. Another source than the operating system's is for tests that script it; any other use ends all privacy.
  entropy: randomBytes,
  now: Date.now,
};

/**
 * Options with their defaults; a cap that is no cap is a programming mistake.
 *
 * @param {Options} options
 * @returns {Settled}
 */
export function settled(options) {
  /** @type {Options} */
  const given = Object.fromEntries(Object.entries(options).filter(([, value]) => value !== undefined));
  const chosen = { fetch: ownFetch(), environment: globalThis, ...DEFAULTS, ...given };
  const { campaignCap, lifetimeCap, yearlyCap } = chosen;
  // A life without an end is bounded by its years.
  for (const cap of [
    campaignCap,
    ...(lifetimeCap === Infinity ? [yearlyCap] : [lifetimeCap, yearlyCap ?? lifetimeCap]),
  ]) {
    if (!(typeof cap === "number" && 0 < cap && cap < Infinity)) throw new TypeError("a cap is a positive number");
  }
  checkSegments(chosen.segments);
  if (chosen.url !== undefined) checkAddress(chosen.url);
  checkToken(chosen.token);
  return { ...chosen, ledger: chosen.ledger ?? ownLedger() };
}

/**
 * Refuses what maps no names of attributes to texts; a value that is not known may be null.
 *
 * @param {unknown} segments
 */
function checkSegments(segments) {
  const isRight = isObject(segments) && Object.values(segments).every((value) => value == null || isText(value));
  if (!isRight) throw new TypeError('segments map names of attributes to texts, such as { platform: "ios" }');
}

const isText = (/** @type {unknown} */ value) => typeof value === "string";

/** The browser's ledger where there is one; Node is told where its file is. */
function ownLedger() {
  return hasIndexedDb() ? new BrowserLedger() : refuse("no-ledger");
}
