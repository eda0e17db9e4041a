/**
 * Sending what waits, batch by batch.
 *
 * The collector answers with a status for each report, and its word is final: what it counts and what it refuses
 * both leave the queue. Only no answer, a busy collector or a token that is not taken leave reports waiting.
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
 * @import { Sent } from "./transport.js"
 */

const LONGEST_ASKED = 86_400_000;

/**
 * Sends a campaign's reports until nothing is left, a batch fails or the moment `ends` of `performance.now()` is over;
 * adds to `tally` what became of them.
 *
 * @param {string} campaign
 * @param {Settled} options
 * @param {number} ends
 * @param {{ sent: number, refused: RefusedReport[] }} tally
 */
export async function uploadQueue(campaign, options, ends, tally) {
  for (;;) {
    const part = await readBatch(campaign, options);
    if (!part.length) return;
    if (performance.now() >= ends) refuse("waiting");
    const outcome = await deliver(campaign, options, part, { ends });
    if (!outcome.statuses) return refuseSaying(outcome.code, outcome.said);
    const refused = refusedOf(outcome.statuses);
    tally.sent += part.length - refused.length;
    tally.refused.push(...refused);
  }
}

/**
 * What may be sent next; a refusal where nothing may.
 *
 * @param {string} campaign
 * @param {Settled} options
 */
export async function readBatch(campaign, options) {
  if (options.url === undefined) refuse("no-collector");
  return transact(options, (state) => nextBatch(state, campaign, options));
}

/**
 * Sends some of the queue, and settles it by the answer. The request is on its way before anything is waited for.
 *
 * @param {string} campaign
 * @param {Settled} options
 * @param {string[]} part
 * @param {{ ends: number, keepalive?: boolean }} how
 */
export async function deliver(campaign, options, part, { ends, keepalive = false }) {
  const { token, fetch } = options;
  // A batch was read, so there is a collector.
  const url = /** @type {string} */ (options.url);
  const outcome = await sendReports({ url, campaign, token, fetch, ends, keepalive }, part.map(fromHex));
  await transact(options, (state) => settle(state, campaign, part, outcome, options));
  return outcome;
}

/**
 * @param {LedgerState} state
 * @param {string} campaign
 * @param {Settled} options
 */
function nextBatch(state, campaign, { environment, batch, now }) {
  requireConsent(state, environment, true);
  const waiting = state.queue.filter((item) => item.campaign === campaign);
  const wait = routeOf(state, campaign).notBefore - now();
  // Nobody is made to wait longer than a day: the clock was set back since.
  if (waiting.length && 0 < wait && wait <= LONGEST_ASKED) refuse("waiting");
  return waiting.slice(0, batch).map((item) => item.report);
}

/**
 * @param {LedgerState} state
 * @param {string} campaign
 * @param {string[]} part
 * @param {Sent} outcome
 * @param {Settled} options
 */
function settle(state, campaign, part, outcome, options) {
  const route = routeOf(state, campaign);
  if (!outcome.statuses) {
    route.failures++;
    route.notBefore = options.now() + backOff(route.failures, outcome.after, options);
    return;
  }
  const settledReports = new Set(part);
  state.queue = state.queue.filter((item) => !settledReports.has(item.report));
  const refused = refusedOf(outcome.statuses).length;
  route.failures = 0;
  route.notBefore = 0;
  route.sent += part.length - refused;
  route.refused += refused;
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
