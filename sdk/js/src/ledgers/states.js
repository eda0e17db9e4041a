/**
 * What a ledger holds: one document, changed as a whole.
 *
 *     secret    32 bytes, the device's own: its place among the groups of a campaign follows from it
 *     latest    the latest time ever seen, in milliseconds; it never goes back
 *     consent   unasked, given or withdrawn
 *     answers   one a round of a campaign: pin of its description, price in units, when it was given, bytes (null once
 *               wiped), and as they were sealed for a relay, if they were
 *     series    one a series of which a wave was answered: what all of it may cost, and the campaign that each wave was
 *     queue     reports that wait for the collector
 *     routes    how sending goes, one a campaign: which way, once something was to be sent, and when again
 *
 * What a ledger says is believed or refused, never repaired.
 */
import { randomBytes, toHex } from "../numerics/bytes.js";
import { isObject, isWhole } from "../checks.js";
import { refuse } from "../refusals.js";
import { unitsOf } from "../numerics/exact.js";

/** @import { LedgerAnswer, LedgerState } from "../../index.d.ts" */

const VERSION = 4;
const WAYS = [null, "direct", "relay"];
// Under this number stands what version 1 spent on a campaign; no description has it.
const BEFORE = 0;

/** @returns {LedgerState} */
export const freshState = (secret = toHex(randomBytes(32))) => ({
  version: VERSION,
  secret,
  latest: 0,
  consent: "unasked",
  answers: [],
  series: {},
  queue: [],
  routes: {},
});

/**
 * The state in a document, of this version or one before; a refusal where it cannot be believed.
 *
 * @param {any} document
 * @returns {LedgerState}
 */
export function readState(document) {
  try {
    const state = UPGRADES[document.version]?.(document) ?? document;
    if (isState(state)) return state;
  } catch {
    // Parts of it make no sense.
  }
  return refuse("ledger-corrupt");
}

const HEX = /^(?:[0-9a-f]{2})*$/;
const HASH = /^[0-9a-f]{64}$/;
const UNITS = /^(0|[1-9][0-9]*)$/;
const WAVE = /^[1-9][0-9]{0,3}$/;
const isUnits = (/** @type {unknown} */ text) => typeof text === "string" && UNITS.test(text);
const isBytes = (/** @type {unknown} */ text) => typeof text === "string" && HEX.test(text);
const isHash = (/** @type {unknown} */ text) => typeof text === "string" && HASH.test(text);
const isTime = (/** @type {unknown} */ value) => typeof value === "number" && Number.isFinite(value) && value >= 0;
const isCount = (/** @type {unknown} */ value) => isWhole(value, 0, Number.MAX_SAFE_INTEGER);

/**
 * @param {any} state
 * @returns {state is LedgerState}
 */
function isState(state) {
  const { version, secret, latest, consent, answers, series, queue, routes } = state;
  return (
    version === VERSION &&
    isHash(secret) &&
    isTime(latest) &&
    ["unasked", "given", "withdrawn"].includes(consent) &&
    answers.every(isAnswer) &&
    new Set(answers.map(roundOf)).size === answers.length &&
    isObject(series) &&
    Object.entries(series).every(([id, one]) => isHash(id) && isBooked(one)) &&
    queue.every(isQueued) &&
    isObject(routes) &&
    Object.values(routes).every(isRoute)
  );
}

/** @type {(answer: LedgerAnswer) => string} */
const roundOf = ({ campaign, round }) => `${campaign} ${round}`;

/** @type {(item: Record<string, unknown>) => boolean} */
const isQueued = ({ campaign, report }) => isHash(campaign) && isBytes(report);

/** @param {Record<string, unknown>} answer */
function isAnswer({ campaign, round, pin, units, at, bytes, sealed }) {
  return (
    isHash(campaign) &&
    isWhole(round, 0, 65535) &&
    (pin === null || isHash(pin)) &&
    isUnits(units) &&
    (at === null || isTime(at)) &&
    (bytes === null || isBytes(bytes)) &&
    (sealed === null || (bytes !== null && isBytes(sealed)))
  );
}

/** @param {any} series */
function isBooked({ units, waves }) {
  const isWave = (/** @type {[string, unknown]} */ [number, id]) => WAVE.test(number) && isHash(id);
  return isUnits(units) && isObject(waves) && Object.entries(waves).every(isWave);
}

/** @param {any} route */
function isRoute({ way, failures, notBefore, sent, refused, dropped }) {
  return WAYS.includes(way) && isTime(notBefore) && [failures, sent, refused, dropped].every(isCount);
}

/**
 * What older versions wrote, as this one reads it.
 *
 * @type {Readonly<Record<number, (document: any) => LedgerState>>}
 */
const UPGRADES = { 1: migrated, 2: (document) => withoutSeries(withoutRelays(document)), 3: withoutSeries };

/**
 * Version 3 knew of no series, and not when an answer was given: that is said with the first change.
 *
 * @param {any} document
 * @returns {LedgerState}
 */
function withoutSeries({ answers, ...rest }) {
  return {
    ...rest,
    version: VERSION,
    answers: answers.map((/** @type {LedgerAnswer} */ answer) => ({ ...answer, at: null })),
    series: {},
  };
}

/**
 * Version 2 knew of no relays: what was sent went directly, and its campaign keeps to that way.
 *
 * @param {any} document
 */
function withoutRelays({ answers, routes, ...rest }) {
  const ways = Object.entries(routes).map(([campaign, route]) => {
    const { failures, sent, refused } = route;
    return [campaign, { way: failures + sent + refused > 0 ? "direct" : null, ...route }];
  });
  return {
    ...rest,
    answers: answers.map((/** @type {LedgerAnswer} */ answer) => ({ ...answer, sealed: null })),
    routes: Object.fromEntries(ways),
  };
}

/**
 * Version 1 kept floats, and answers under a hash of the question. What was spent stays spent, rounded up; a round's
 * latest bytes are kept without a pin and repeated whatever its description.
 *
 * @param {any} document
 * @returns {LedgerState}
 */
function migrated({ enabled, secret, spent, memo, queue }) {
  const campaigns = Object.keys(spent);
  /** @type {LedgerAnswer[]} */
  const answers = campaigns.map((campaign) => {
    if (!isTime(spent[campaign])) refuse("ledger-corrupt");
    return answerOf({ campaign, round: BEFORE, units: String(unitsOf(spent[campaign])), bytes: null });
  });
  for (const { tag, round, report } of /** @type {any[]} */ (Object.values(memo))) {
    const campaign = campaigns.find((id) => id.startsWith(tag));
    const known = answers.find((answer) => answer.campaign === campaign && answer.round === round);
    if (known) known.bytes = report;
    else if (campaign) answers.push(answerOf({ campaign, round, units: "0", bytes: report }));
  }
  const consent = enabled ? "given" : campaigns.length ? "withdrawn" : "unasked";
  return { ...freshState(secret), consent, answers, queue };
}

/** @type {(known: Pick<LedgerAnswer, "campaign" | "round" | "units" | "bytes">) => LedgerAnswer} */
const answerOf = (known) => ({ ...known, pin: null, at: null, sealed: null });

// --- what is asked of a state ---

/**
 * The answer that was given to a round, if one was.
 *
 * @param {LedgerState} state
 * @param {string} campaign
 * @param {number} round
 */
export const answerTo = ({ answers }, campaign, round) =>
  answers.find((answer) => answer.campaign === campaign && answer.round === round);

const sumOf = (/** @type {{ units: string }[]} */ paid) => paid.reduce((sum, { units }) => sum + BigInt(units), 0n);

/**
 * The units spent on a campaign.
 *
 * @param {LedgerState} state
 * @param {string} campaign
 */
export const unitsSpent = ({ answers }, campaign) => sumOf(answers.filter((answer) => answer.campaign === campaign));

/**
 * The units spent on all campaigns: on a series of which a wave was answered all that its waves may cost.
 *
 * @param {LedgerState} state
 */
export function unitsInAll({ answers, series }) {
  const booked = Object.values(series);
  const waves = new Set(booked.flatMap((one) => Object.values(one.waves)));
  return sumOf(answers.filter(({ campaign }) => !waves.has(campaign))) + sumOf(booked);
}

/**
 * The units of answers that were given after a moment.
 *
 * @param {LedgerState} state
 * @param {number} moment
 */
export const unitsSince = ({ answers, latest }, moment) => sumOf(answers.filter(({ at }) => (at ?? latest) > moment));

/**
 * The campaigns that count as one: a campaign, or all waves of its series that were answered, and itself.
 *
 * @param {LedgerState} state
 * @param {{ id: string, series: string | null }} round
 */
export function countedWith({ series }, { id, series: of }) {
  const waves = of === null ? [] : Object.values(series[of]?.waves ?? {});
  return [...new Set([id, ...waves])];
}

/**
 * Books a series as a whole, if it is not, and that a wave of it is this campaign for good.
 *
 * @param {LedgerState} state
 * @param {string} series
 * @param {{ wave: number, campaign: string, units: bigint }} answered
 */
export function joinSeries(state, series, { wave, campaign, units }) {
  state.series[series] ??= { units: String(units), waves: {} };
  state.series[series].waves[wave] ??= campaign;
}

/**
 * How many rounds of a campaign have an answer.
 *
 * @param {LedgerState} state
 * @param {string} campaign
 */
export const answersIn = ({ answers }, campaign) =>
  answers.filter((answer) => answer.campaign === campaign && answer.round !== BEFORE).length;

/**
 * How sending goes for a campaign.
 *
 * @param {LedgerState} state
 * @param {string} campaign
 */
export function routeOf({ routes }, campaign) {
  routes[campaign] ??= { way: null, failures: 0, notBefore: 0, sent: 0, refused: 0, dropped: 0 };
  return routes[campaign];
}

/**
 * Queue a report, unless it waits already; the oldest make room and are counted as dropped. What is sealed takes room
 * as well.
 *
 * @param {LedgerState} state
 * @param {string} campaign
 * @param {string} report
 * @param {{ mostQueued: number, mostQueuedBytes: number }} bounds
 */
export function enqueue(state, campaign, report, { mostQueued, mostQueuedBytes }) {
  if (state.queue.some((item) => item.report === report)) return;
  state.queue.push({ campaign, report });
  const sealed = new Map(state.answers.map((answer) => [answer.bytes, answer.sealed ?? ""]));
  const sizeOf = (/** @type {string} */ one) => (one.length + (sealed.get(one) ?? "").length) / 2;
  let bytes = state.queue.reduce((sum, item) => sum + sizeOf(item.report), 0);
  while (state.queue.length > mostQueued || bytes > mostQueuedBytes) {
    const [gone] = state.queue.splice(0, 1);
    bytes -= sizeOf(gone.report);
    routeOf(state, gone.campaign).dropped++;
  }
}
