/**
 * Sending what waits, batch by batch.
 *
 * Whoever gets the reports answers with a status for each, and that word is final: what counts and what is refused
 * both leave the queue. Only no answer, a busy collector, a token that is not taken, or a key that a relay takes no
 * more leave reports waiting.
 */
import { routeOf } from "../ledgers/states.js";
import { fromHex } from "../numerics/bytes.js";
import { refuse, Refused, refuseSaying } from "../refusals.js";
import { LONGEST_ASKED, noteFailure } from "./backoff.js";
import { requireConsent } from "./consent.js";
import { transact } from "./transactions.js";
import { refusedOf, sendReports } from "./transport.js";

/**
 * @import { LedgerState, RefusedReport } from "../../index.d.ts"
 * @import { Settled } from "./options.js"
 * @import { Judged, Ready, Route, Waiting } from "./route.js"
 *
 * @typedef {object} Sending
 * @property {string} campaign
 * @property {Settled} options
 * @property {Route} route
 */

// What one campaign's reports are refused for is no matter of that campaign.
const NOT_SENDING = new Set([
  "do-not-track",
  "disabled",
  "not-enabled",
  "ledger-corrupt",
  "ledger-unwritable",
  "ledger-busy",
]);

/**
 * Sends the reports of several campaigns, one after the other. Where one's cannot be sent the others' are, and then the
 * first refusal is what comes of it.
 *
 * @param {Sending[]} sendings
 * @param {number} ends
 * @param {{ sent: number, refused: RefusedReport[] }} tally
 */
export async function uploadQueues(sendings, ends, tally) {
  /** @type {Refused | null} */
  let failure = null;
  for (const sending of sendings) {
    await uploadQueue(sending, ends, tally).catch((error) => {
      if (!(error instanceof Refused) || NOT_SENDING.has(error.code)) throw error;
      failure ??= error;
    });
  }
  if (failure) throw failure;
}

/**
 * Sends a campaign's reports until nothing is left, a batch fails or the moment `ends` of `performance.now()` is over;
 * adds to `tally` what became of them.
 *
 * @param {Sending} sending
 * @param {number} ends
 * @param {{ sent: number, refused: RefusedReport[] }} tally
 */
async function uploadQueue(sending, ends, tally) {
  for (;;) {
    const part = await readBatch(sending);
    if (!part.length) return;
    if (performance.now() >= ends) refuse("waiting");
    const ready = await sending.route.ready(part, ends);
    // Somebody else has settled all of it meanwhile.
    if (!ready.length) continue;
    const { judged, failure } = await deliver(sending, ready, { ends });
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
  route.check();
  return transact(options, (state) => nextBatch(state, campaign, options, route));
}

/**
 * Sends some of the queue, and settles it by the answer. The request is on its way before anything is waited for.
 *
 * @param {Sending} sending
 * @param {Ready[]} part
 * @param {{ ends: number, keepalive?: boolean }} how
 */
export async function deliver({ campaign, options, route }, part, { ends, keepalive = false }) {
  const reports = part.map(({ sent }) => fromHex(sent));
  const outcome = await sendReports({ ...route.receiver, campaign, fetch: options.fetch, ends, keepalive }, reports);
  const { statuses } = outcome;
  const { judged, failure, forget } = statuses
    ? await route.judge(part.map((one, place) => ({ ...one, status: statuses[place] })))
    : { judged: [], failure: outcome };
  await transact(options, (state) => {
    if (judged.length) settle(state, campaign, judged);
    if (failure) noteFailure(state, campaign, options, failure.after);
    forget?.(state);
  });
  return { judged, failure };
}

/**
 * @param {LedgerState} state
 * @param {string} campaign
 * @param {Settled} options
 * @param {Route} route
 * @returns {Waiting[]}
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
