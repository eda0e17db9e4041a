/**
 * Sending what waits, batch by batch.
 *
 * The collector, or the relay for it, answers with a status for each report, and its word is final: what counts and
 * what is refused both leave the queue. Only no answer, a busy collector, a token that is not taken, or a key that a
 * relay takes no more leave reports waiting.
 */
import { routeOf } from "../ledgers/states.js";
import { fromHex, randomBytes } from "../numerics/bytes.js";
import { refuse, refuseSaying } from "../refusals.js";
import { requireConsent } from "./consent.js";
import { transact } from "./transactions.js";
import { refusedOf, sendReports, waitAsked } from "./transport.js";

/**
 * @import { LedgerState, RefusedReport } from "../../index.d.ts"
 * @import { Settled } from "./options.js"
 * @import { Route, Waiting } from "./route.js"
 * @import { Sent, Unsent } from "./transport.js"
 *
 * @typedef {object} Sending
 * @property {string} campaign
 * @property {Settled} options
 * @property {Route} route
 *
 * @typedef {Waiting & { status: string }} Judged
 */

const LONGEST_ASKED = 86_400_000;
// What a relay says of a report whose key the collector lists no more.
const UNKNOWN_KEY = "unknown-key";

/**
 * Sends a campaign's reports until nothing is left, a batch fails or the moment `ends` of `performance.now()` is over;
 * adds to `tally` what became of them.
 *
 * @param {Sending} sending
 * @param {number} ends
 * @param {{ sent: number, refused: RefusedReport[] }} tally
 */
export async function uploadQueue(sending, ends, tally) {
  for (;;) {
    const part = await readBatch(sending);
    if (!part.length) return;
    if (performance.now() >= ends) refuse("waiting");
    const { judged, failure } = await deliver(sending, await sealOrPutOff(sending, part, ends), { ends });
    const refused = refusedOf(judged.map(({ status }) => status));
    tally.sent += judged.length - refused.length;
    tally.refused.push(...refused);
    if (failure) refuseSaying(failure.code, failure.said);
  }
}

/**
 * What may be sent next; a refusal where nothing may.
 *
 * @param {Sending} sending
 */
export async function readBatch({ campaign, options, route }) {
  // Refused before anything is read where there is no way at all.
  void route.way;
  return transact(options, (state) => nextBatch(state, campaign, options, route));
}

/**
 * The same, sealed where it must be; where that cannot be done it is refused, and the next attempt is put off.
 *
 * @param {Sending} sending
 * @param {Waiting[]} part
 * @param {number} ends
 */
export async function sealOrPutOff(sending, part, ends) {
  const sealed = await sending.route.sealed(part, ends);
  if (!("code" in sealed)) return sealed;
  await putOff(sending, sealed);
  return refuseSaying(sealed.code, sealed.said);
}

/**
 * Sends some of the queue, and settles it by the answer. The request is on its way before anything is waited for.
 *
 * @param {Sending} sending
 * @param {Waiting[]} part all of which is ready to be sent
 * @param {{ ends: number, keepalive?: boolean }} how
 */
export async function deliver(sending, part, { ends, keepalive = false }) {
  const { options, route } = sending;
  const reports = part.map(({ sent }) => fromHex(/** @type {string} */ (sent)));
  const outcome = await sendReports({ ...route.receiver, fetch: options.fetch, ends, keepalive }, reports);
  const { judged, failure, outdated } = await judge(route, part, outcome);
  await transact(options, (state) => {
    if (judged.length) settle(state, sending.campaign, judged);
    if (failure) noteFailure(state, sending, failure);
    route.forget(state, outdated);
  });
  return { judged, failure };
}

/**
 * What an answer means: the reports that it settles, and why others wait on. Of those, which are to be sealed again.
 *
 * @param {Route} route
 * @param {Waiting[]} part
 * @param {Sent} outcome
 * @returns {Promise<{ judged: Judged[], failure: Unsent | null, outdated: Waiting[] }>}
 */
async function judge(route, part, outcome) {
  const { statuses } = outcome;
  if (!statuses) return { judged: [], failure: outcome, outdated: [] };
  const all = part.map((one, place) => ({ ...one, status: statuses[place] }));
  const isUnopened = (/** @type {Judged} */ { status }) => status === UNKNOWN_KEY && route.way === "relay";
  const unopened = all.filter(isUnopened);
  if (!unopened.length) return { judged: all, failure: null, outdated: [] };
  const outdated = await route.outdated(unopened);
  const code = outdated.length < unopened.length ? "keys-differ" : "waiting";
  return { judged: all.filter((one) => !isUnopened(one)), failure: { code, said: "", after: null }, outdated };
}

/**
 * Nothing was sent: the next attempt is put off.
 *
 * @param {Sending} sending
 * @param {Unsent} unsent
 */
const putOff = (sending, unsent) => transact(sending.options, (state) => noteFailure(state, sending, unsent));

/**
 * @param {LedgerState} state
 * @param {string} campaign
 * @param {Settled} options
 * @param {Route} route
 */
function nextBatch(state, campaign, { environment, batch, now }, route) {
  requireConsent(state, environment, true);
  const reports = state.queue.filter((item) => item.campaign === campaign).map((item) => item.report);
  const part = route.read(state, reports.slice(0, batch));
  const wait = routeOf(state, campaign).notBefore - now();
  // Nobody is made to wait longer than a day: the clock was set back since.
  if (part.length && 0 < wait && wait <= LONGEST_ASKED) refuse("waiting");
  return part;
}

/**
 * @param {LedgerState} state
 * @param {string} campaign
 * @param {Judged[]} judged
 */
function settle(state, campaign, judged) {
  const route = routeOf(state, campaign);
  const gone = new Set(judged.map(({ report }) => report));
  state.queue = state.queue.filter((item) => !gone.has(item.report));
  const refused = refusedOf(judged.map(({ status }) => status)).length;
  route.failures = 0;
  route.notBefore = 0;
  route.sent += judged.length - refused;
  route.refused += refused;
}

/**
 * @param {LedgerState} state
 * @param {Sending} sending
 * @param {Unsent} unsent
 */
function noteFailure(state, { campaign, options }, { after }) {
  const route = routeOf(state, campaign);
  route.failures++;
  route.notBefore = options.now() + backOff(route.failures, after, options);
}

/**
 * Longer after every failure, with jitter; or as long as the collector asks, up to a day.
 *
 * @param {number} failures
 * @param {string | null} after
 * @param {Settled} options
 */
function backOff(failures, after, { firstWait, longestWait, now }) {
  const ceiling = Math.min(longestWait, firstWait * 2 ** Math.min(failures - 1, 30));
  const jitter = new DataView(randomBytes(4).buffer).getUint32(0) / 2 ** 32;
  return waitAsked(after, now(), LONGEST_ASKED) ?? ceiling * (0.5 + jitter / 2);
}
