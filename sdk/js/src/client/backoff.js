/** When to try again after a failure. */
import { routeOf } from "../ledgers/states.js";
import { randomBytes } from "../numerics/bytes.js";
import { transact } from "./transactions.js";
import { waitAsked } from "./transport.js";

/**
 * @import { LedgerState } from "../../index.d.ts"
 * @import { Settled } from "./options.js"
 */

export const LONGEST_ASKED = 86_400_000;

/**
 * Notes in the ledger that an attempt failed; `after` is how long to wait, if somebody asked for that.
 *
 * @param {LedgerState} state
 * @param {string} campaign
 * @param {Settled} options
 * @param {string | null} after
 */
export function noteFailure(state, campaign, options, after) {
  const route = routeOf(state, campaign);
  route.failures++;
  route.notBefore = options.now() + backOff(route.failures, after, options);
}

/**
 * The same, as a transaction of its own.
 *
 * @param {string} campaign
 * @param {Settled} options
 * @param {string | null} after
 */
export const putOff = (campaign, options, after) =>
  transact(options, (state) => noteFailure(state, campaign, options, after));

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
