/**
 * Over the network: a batch of reports in one POST, a campaign in one GET, an id for a report.
 *
 * https is required, except towards this machine. Redirects are not followed. Every wait has a deadline in all,
 * and every answer a largest size, whatever the collector does.
 */
import { isObject, parsed } from "../checks.js";
import { fromHex } from "../numerics/bytes.js";
import { refuse, refuseSaying } from "../refusals.js";
import { toFrames } from "../report/reports.js";
import { within } from "./deadline.js";

/**
 * @import { RefusedReport } from "../../index.d.ts"
 *
 * @typedef {typeof globalThis.fetch} Fetch
 * @typedef {{ statuses?: undefined, code: string, said: string, after: string | null }} Unsent
 * @typedef {{ statuses: string[] } | Unsent} Sent a status for each report, or why there is none
 */

export const TIMEOUT = 10_000;
const LARGEST_CAMPAIGN = 3 * 2 ** 20;
const LARGEST_STATUSES = 64 * 2 ** 10;
const LONGEST_WORDS = 300;
const STATUS_BYTES = 64;

// A batch with one of these answers will never be taken; any other answer may be a matter of time.
const TOO_LARGE = 413;
const FINAL = [400, 410, TOO_LARGE, 415, 422];
// Of 400 to 499, what may go well later; any other is not to be repeated.
const MAY_PASS = [408, 425, 429];

/**
 * The code for a status that is none of success.
 *
 * @param {number} status
 */
export function refusalOf(status) {
  if (status === 401 || status === 403) return "token-refused";
  return status >= 400 && status < 500 && !MAY_PASS.includes(status) ? "refused" : "waiting";
}

/** The platform's own way to the network, where there is one. */
export const ownFetch = () => globalThis.fetch?.bind(globalThis);

/**
 * Why a collector refused a report, by its code.
 *
 * @type {Readonly<Record<string, string>>}
 */
const REFUSALS = {
  "round-closed": "the round it answers is over",
  "wrong-round": "it answers a round that has not been opened",
  "wrong-campaign": "it answers another campaign",
  "wrong-length": "it is not as long as the round's reports are",
  "unknown-version": "the collector does not read its version",
  "not-canonical": "the collector cannot read its bytes",
  "wrong-cohort": "its index or hash is not the one that its id gives",
  "not-issued": "its id is not one that the collector handed out; open the device with the collector's address",
  "batch-refused": "the collector takes no batch like the one that it was in",
};

const isCounted = (/** @type {string} */ status) => status === "accepted" || status === "duplicate";

/**
 * The reports that will never count, each with a code and a reason.
 *
 * @param {string[]} statuses
 * @returns {RefusedReport[]}
 */
export const refusedOf = (statuses) =>
  statuses
    .filter((status) => !isCounted(status))
    .map((code) => ({ code, reason: REFUSALS[code] ?? "the collector refused it" }));

/** @param {string} url */
export function checkAddress(url) {
  const { protocol, hostname } = parsedAddress(url);
  const isLoopback = hostname === "localhost" || hostname === "[::1]" || /^127(\.\d+){3}$/.test(hostname);
  if (protocol !== "https:" && !(protocol === "http:" && isLoopback)) refuse("https-required");
}

/** @param {string} url */
function parsedAddress(url) {
  try {
    return new URL(url);
  } catch {
    return refuse("no-collector");
  }
}

/** @param {string} [token] */
export function checkToken(token) {
  if (token !== undefined && !/^[\x21-\x7e]+$/.test(token)) refuse("bad-token");
}

/** Whether two addresses are of one server. */
export const isSamePlace = (/** @type {string} */ one, /** @type {string} */ other) =>
  parsedAddress(one).origin === parsedAddress(other).origin;

export const withoutSlash = (/** @type {string} */ url) => url.replace(/\/+$/, "");
/**
 * @param {string} [token]
 * @returns {Record<string, string>}
 */
function authorization(token) {
  return token === undefined ? {} : { authorization: `Bearer ${token}` };
}

/**
 * One request: the status, the wait that was asked for, and a body of at most `largest` bytes; of a refusal the
 * collector's own words.
 *
 * @param {{ fetch: Fetch, address: string, init: RequestInit, timeout: number, largest: number }} request
 */
export function exchange({ fetch, address, init, timeout, largest }) {
  return within(timeout, async (signal) => {
    const response = await fetch(address, { ...init, signal, credentials: "omit", redirect: "error" });
    const after = response.headers.get("retry-after");
    if (response.ok) return { status: response.status, after, body: await readBody(response, largest), said: "" };
    const problem = await readBody(response, LARGEST_STATUSES).catch(() => "");
    return { status: response.status, after, body: null, said: wordsOf(response.status, problem) };
  });
}

/**
 * The status, and what a problem document (RFC 9457) says and advises. The words are a stranger's: they are cut to what
 * fits a line, and nothing is done because of them.
 *
 * @param {number} status
 * @param {string} body
 */
function wordsOf(status, body) {
  const words = partsOf(body)
    // Cut first: looking for the end of a long row of dots takes its length squared.
    .map((part) => (typeof part === "string" ? part.slice(0, LONGEST_WORDS).replace(/^[ .]+|[ .]+$/g, "") : ""))
    .filter((part) => part !== "")
    .join("; ");
  return words ? `${status}: ${words.slice(0, LONGEST_WORDS).replace(/[\p{C}\p{Zl}\p{Zp}]/gu, "?")}` : String(status);
}

/**
 * @param {string} body
 * @returns {unknown[]}
 */
function partsOf(body) {
  try {
    const { detail, title, remedy } = JSON.parse(body);
    return [detail || title, remedy];
  } catch {
    return [];
  }
}

/**
 * @param {Response} response
 * @param {number} largest
 */
async function readBody(response, largest) {
  if (response.body === null) throw new TypeError("an answer without a body");
  const reader = response.body.getReader();
  const decoder = new TextDecoder("utf-8", { fatal: true });
  let text = "";
  let size = 0;
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return text + decoder.decode();
    size += value.length;
    if (size > largest) {
      await reader.cancel();
      throw new RangeError("the answer is too large");
    }
    text += decoder.decode(value, { stream: true });
  }
}

/**
 * Sends reports before a moment of `performance.now()`, to the route of a campaign named `kind`. With `keepalive` the
 * request outlives the page.
 *
 * Yields a status for each report; or, where they must be sent again later, a code and the wait asked for.
 *
 * @typedef {object} Receiver
 * @property {string} url
 * @property {"reports" | "sealed"} kind
 * @property {string} campaign
 * @property {string} [token]
 *
 * @param {Receiver & { fetch: Fetch, ends: number, keepalive: boolean }} receiver
 * @param {Uint8Array[]} reports
 * @returns {Promise<Sent>}
 */
export async function sendReports({ url, kind, campaign, token, fetch, ends, keepalive }, reports) {
  const address = `${withoutSlash(url)}/v1/campaigns/${campaign}/${kind}`;
  const headers = { "content-type": "application/octet-stream", ...authorization(token) };
  /** @type {(part: Uint8Array[]) => Promise<Sent>} */
  const send = async (part) => {
    const largest = LARGEST_STATUSES + STATUS_BYTES * part.length;
    const init = { method: "POST", body: toFrames(part), headers, keepalive };
    const answer = await exchange({ fetch, address, init, timeout: ends - performance.now(), largest });
    if (answer.body !== null) return { statuses: readStatuses(answer.body, part.length) };
    if (answer.status === TOO_LARGE && part.length > 1) return inHalves(send, part);
    if (FINAL.includes(answer.status)) return { statuses: part.map(() => "batch-refused") };
    return { code: refusalOf(answer.status), said: answer.said, after: answer.after };
  };
  // No answer, or none that can be read: it may be a matter of time.
  return send(reports).catch(() => ({ code: "waiting", said: "", after: null }));
}

/**
 * @param {(part: Uint8Array[]) => Promise<Sent>} send
 * @param {Uint8Array[]} reports
 * @returns {Promise<Sent>}
 */
async function inHalves(send, reports) {
  const half = reports.length >> 1;
  const first = await send(reports.slice(0, half));
  if (!first.statuses) return first;
  const second = await send(reports.slice(half));
  // What was answered before a failure is asked again, and counts once: ids stay the same.
  return second.statuses ? { statuses: [...first.statuses, ...second.statuses] } : second;
}

/**
 * @param {string} body
 * @param {number} expected
 * @returns {string[]}
 */
function readStatuses(body, expected) {
  const { reports } = JSON.parse(body);
  const isRight =
    Array.isArray(reports) && reports.length === expected && reports.every((status) => typeof status === "string");
  if (!isRight) throw new TypeError("not one status a report");
  return reports;
}

/**
 * Milliseconds that a Retry-After asks for, in seconds or as a date, at most `longest`; null for what is neither.
 *
 * @param {string | null} after
 * @param {number} now
 * @param {number} longest
 */
export function waitAsked(after, now, longest) {
  if (!after) return null;
  const wait = /^\d+$/.test(after) ? 1000 * Number(after.slice(0, 9)) : Date.parse(after) - now;
  return Number.isNaN(wait) ? null : Math.min(longest, Math.max(0, wait));
}

const ADDRESS = /^(.+)\/v1\/(campaigns|series)\/([^/]+)$/;

/**
 * A campaign's address, or a series', as the collector's own and the id.
 *
 * @param {string} url
 */
export function splitAddress(url) {
  checkAddress(url);
  const [, base, kind, id] = ADDRESS.exec(withoutSlash(url)) ?? refuse("no-collector");
  return { base, id, isSeries: kind === "series" };
}

/**
 * What a collector says of a campaign, as it says it: its text, its open round, and whether it hands out ids. Of a
 * series, what it says of the open wave; `waiting` where none is open.
 *
 * @param {{ url: string, isSeries: boolean, token?: string, fetch: Fetch, timeout?: number }} campaign
 */
export async function fetchView({ url, isSeries, token, fetch, timeout = TIMEOUT }) {
  const answer = await exchange({
    fetch,
    address: withoutSlash(url),
    init: { headers: authorization(token) },
    timeout,
    largest: LARGEST_CAMPAIGN,
  }).catch((error) => refuse(error instanceof RangeError ? "bad-description" : "waiting"));
  if (answer.body === null) refuseSaying(refusalOf(answer.status), answer.said);
  const said = parsed(answer.body);
  if (!isObject(said)) refuse("bad-description");
  const view = isSeries ? (said.wave ?? refuse("waiting")) : said;
  if (!isObject(view)) refuse("bad-description");
  return { campaign: view.campaign, round: view.round ?? null, areIdsIssued: view.ids === "issued" };
}

/**
 * Where a device gets the ids of its reports, if its campaign hands them out:
 * `Device.open(description, {ids: issuedIds(...)})`.
 *
 * One is asked for before an answer that is new, never before one that is repeated. For one nonce, which a device gives
 * in campaigns whose text says that ids are issued, it is always the same.
 *
 * @param {{ url: string, campaign: string, token?: string, fetch?: Fetch, timeout?: number }} source
 * @returns {(nonce?: string) => Promise<Uint8Array<ArrayBuffer>>}
 */
export function issuedIds({ url, campaign, token, fetch = ownFetch(), timeout = TIMEOUT }) {
  checkAddress(url);
  checkToken(token);
  const ids = `${withoutSlash(url)}/v1/campaigns/${campaign}/ids?count=1`;
  const init = { method: "POST", headers: authorization(token) };
  return async (nonce) => {
    const address = nonce === undefined ? ids : `${ids}&nonce=${nonce}`;
    const answer = await exchange({ fetch, address, init, timeout, largest: LARGEST_STATUSES }).catch(() => null);
    return fromHex(readId(answer?.body ?? "") ?? refuseSaying("no-id", answer?.said ?? ""));
  };
}

/**
 * @param {string} body
 * @returns {string | null}
 */
function readId(body) {
  try {
    const [id] = JSON.parse(body).ids;
    return /^[0-9a-f]{32}$/.test(id) ? id : null;
  } catch {
    return null;
  }
}
