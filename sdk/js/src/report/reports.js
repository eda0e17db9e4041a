/** What crosses the wire: a report, a report for people, a batch of reports; and what is refused of them. */
import { concat, fromHex, sha256, toHex, toUtf8 } from "../numerics/bytes.js";
import { hasExactly } from "../checks.js";
import { refuse } from "../refusals.js";
import { roundedFor } from "../dither.js";
import { Words } from "../numerics/words.js";

/** @import { Answer, Pair, Round } from "../../index.d.ts" */

const VERSION = 1;
export const HEADER_BYTES = 35;
const PUBLIC_WORD = toUtf8("keyveil public word 1");

/**
 * @param {Uint8Array} tag
 * @param {number} round
 * @param {Uint8Array} reportId
 */
export function header(tag, round, reportId) {
  const bytes = new Uint8Array(HEADER_BYTES);
  bytes[0] = VERSION;
  bytes.set(tag, 1);
  new DataView(bytes.buffer).setUint16(17, round, true);
  bytes.set(reportId, 19);
  return bytes;
}

/**
 * The word that a report's header gives: what must not be the device's choice follows from it.
 *
 * @param {Uint8Array} tag
 * @param {number} round
 * @param {Uint8Array} reportId
 */
export async function publicWord(tag, round, reportId) {
  return new Words(await sha256(PUBLIC_WORD, header(tag, round, reportId))).at(0);
}

/**
 * The parts of a report, or a refusal; the payload is not looked at.
 *
 * @param {Uint8Array} bytes
 */
export function readReport(bytes) {
  if (bytes.length < HEADER_BYTES) {
    refuse("wrong-length", `expected at least ${HEADER_BYTES} bytes, got ${bytes.length}`);
  }
  if (bytes[0] !== VERSION) refuse("unknown-version", `this reads version ${VERSION}, got ${bytes[0]}`);
  return {
    campaign: bytes.slice(1, 17),
    round: bytes[17] + 256 * bytes[18],
    report_id: bytes.slice(19, 35),
    payload: bytes.slice(HEADER_BYTES),
  };
}

/** @type {Readonly<Record<string, "number" | "string">>} */
const FIELDS = { version: "number", campaign: "string", round: "number", report_id: "string", payload: "string" };

/**
 * A report for people: ids in hexadecimal, the payload in base64.
 *
 * @param {Uint8Array} bytes
 */
export function reportToJson(bytes) {
  const { campaign, round, report_id, payload } = readReport(bytes);
  return JSON.stringify({
    version: VERSION,
    campaign: toHex(campaign),
    round,
    report_id: toHex(report_id),
    payload: btoa(String.fromCharCode(...payload)),
  });
}

/**
 * The report that `reportToJson` wrote, or a refusal.
 *
 * @param {string} text
 */
export function reportFromJson(text) {
  const said = readFields(text);
  if (said.version !== VERSION) refuse("unknown-version", `this reads version ${VERSION}`);
  for (const name of /** @type {const} */ (["campaign", "report_id"])) {
    if (!/^[0-9a-f]{32}$/.test(said[name])) refuse("not-canonical", `${name} must be 32 small hexadecimal digits`);
  }
  if (said.round < 0 || said.round > 65535) refuse("not-canonical", "a round is a number from 0 to 65535");
  const payload = fromBase64(said.payload);
  return concat([header(fromHex(said.campaign), said.round, fromHex(said.report_id)), payload]);
}

/**
 * The object in a text: exactly a report's fields, each once and of its type.
 *
 * @param {string} text
 * @returns {{ version: number, campaign: string, round: number, report_id: string, payload: string }}
 */
function readFields(text) {
  let said;
  try {
    said = JSON.parse(text);
  } catch {
    refuse("not-json", "the text is no JSON");
  }
  const names = Object.keys(FIELDS);
  // JSON.parse keeps the last of two equal names; a name said twice shows in the text, where nothing is escaped.
  const isOnce = (/** @type {string} */ name) => !text.includes("\\") && text.split(JSON.stringify(name)).length === 2;
  if (!hasExactly(said, names) || !names.every(isOnce)) {
    refuse("not-json", `expected an object with ${names.join(", ")}, each once`);
  }
  for (const name of names) {
    const isRight = FIELDS[name] === "number" ? Number.isInteger(said[name]) : typeof said[name] === "string";
    if (!isRight) refuse("not-json", `${name} must be a ${FIELDS[name]}`);
  }
  return /** @type {any} */ (said);
}

/**
 * Bytes from base64, of which there is one text for them.
 *
 * @param {string} text
 */
function fromBase64(text) {
  let letters = "";
  try {
    letters = atob(text);
  } catch {
    refuse("not-canonical", "payload must be base64");
  }
  if (btoa(letters) !== text) refuse("not-canonical", "payload must be base64, padded, without spaces");
  return Uint8Array.from(letters, (letter) => letter.charCodeAt(0));
}

/**
 * Reports in one piece: a length (4 bytes, little endian) before each.
 *
 * @param {readonly Uint8Array[]} reports
 */
export function toFrames(reports) {
  const parts = reports.flatMap((report) => {
    const length = new Uint8Array(4);
    new DataView(length.buffer).setUint32(0, report.length, true);
    return [length, report];
  });
  return concat(parts);
}

/**
 * The reports of a batch, or a refusal.
 *
 * @param {Uint8Array} bytes
 * @param {{ largest?: number, most?: number }} [bounds]
 */
export function readFrames(bytes, { largest = 1 << 20, most = 1 << 16 } = {}) {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const reports = [];
  for (let at = 0; at < bytes.length;) {
    if (bytes.length - at < 4) refuse("truncated-frame", `the stream ends in the length of frame ${reports.length}`);
    if (reports.length === most) refuse("too-many-reports", `expected at most ${most} reports; send fewer`);
    const length = view.getUint32(at, true);
    if (length > largest) refuse("frame-too-large", `expected at most ${largest} bytes, got ${length}`);
    if (bytes.length - at - 4 < length) refuse("truncated-frame", `frame ${reports.length} is cut short`);
    reports.push(bytes.slice(at + 4, at + 4 + length));
    at += 4 + length;
  }
  return reports;
}

/**
 * One report; `bytes` are the random words and `word` is the public word of the report's id (`publicWord`). The labels
 * lie behind the answer, a byte each, and change nothing about it.
 *
 * The public word takes its place among the words where a mechanism has one.
 *
 * @param {Pick<Round, "mechanism" | "tag" | "number" | "dither">} round
 * @param {Pair[]} record
 * @param {Uint8Array} bytes
 * @param {Uint8Array} reportId
 * @param {bigint} word
 * @param {readonly number[]} labels
 */
export function writeReport(round, record, bytes, reportId, word, labels) {
  const { mechanism, tag, number } = round;
  if (bytes.length !== 8 * mechanism.nWords) throw new RangeError(`expected ${mechanism.nWords} words`);
  const words = new Words(bytes.slice());
  if (mechanism.publicWord !== undefined) words.view.setBigUint64(8 * mechanism.publicWord, word, true);
  const payload = mechanism.layout.encode(mechanism.perturb(roundedFor(round, record, reportId), words));
  return concat([header(tag, number, reportId), payload, Uint8Array.from(labels)]);
}

/**
 * One report without a device or its ledger, for simulations and tests; whoever calls keeps count of the cost.
 *
 * @param {Round} round
 * @param {Pair[]} record
 * @param {Uint8Array} bytes
 * @param {Uint8Array} reportId
 * @param {readonly number[]} [labels] the user's label of each attribute: "other" if none are said
 */
export async function makeReport(round, record, bytes, reportId, labels = round.labels.map(() => 0)) {
  return writeReport(round, record, bytes, reportId, await publicWord(round.tag, round.number, reportId), labels);
}

/**
 * The answer in a report to this round, or a refusal: what a collector would say.
 *
 * @param {Round} round
 * @param {Uint8Array} bytes
 * @returns {Promise<Answer>}
 */
export async function checkReport(round, bytes) {
  const { campaign: tag, round: number, report_id, payload } = readReport(bytes);
  if (toHex(tag) !== toHex(round.tag)) refuse("wrong-campaign", "the report answers another campaign");
  if (number !== round.number) refuse("wrong-round", `the report answers round ${number}`);
  const { mechanism, labels } = round;
  const end = labels.length ? mechanism.layout.nBytes : payload.length;
  const answer = mechanism.layout.decode(payload.subarray(0, end));
  requireLabels(payload.subarray(end), labels);
  if (mechanism.follows && !mechanism.follows(answer, await publicWord(tag, number, report_id))) {
    refuse("wrong-cohort", "the report tells an index or a hash that its id does not give");
  }
  return answer;
}

/**
 * Refuses labels that nobody declared.
 *
 * @param {Uint8Array} told
 * @param {readonly number[]} sizes
 */
function requireLabels(told, sizes) {
  if (told.length !== sizes.length) refuse("wrong-length", `expected ${sizes.length} labels, got ${told.length}`);
  if (!sizes.every((size, place) => told[place] <= size)) {
    refuse("not-canonical", "a label names a segment that nobody declared");
  }
}
