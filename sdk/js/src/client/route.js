/**
 * The way that a campaign's reports go: directly to the collector, or sealed through a relay (`relayed.js`, which comes
 * with `keyveil/sealed`).
 *
 * The campaign says which ways there are, the application which it takes, and the ledger which was taken before: a
 * report that came both ways would show who sent it.
 */
import { countedWith, routeOf } from "../ledgers/states.js";
import { refuse } from "../refusals.js";

/**
 * @import { LedgerState, Round } from "../../index.d.ts"
 * @import { Settled } from "./options.js"
 * @import { Unsent } from "./transport.js"
 *
 * @typedef {{ report: string, sent: string | null }} Waiting a report of the queue, and what goes over the network for
 *   it: null where that is not sealed yet; both in hexadecimal digits
 * @typedef {{ report: string, sent: string }} Ready
 * @typedef {Ready & { status: string }} Judged
 *
 * @typedef {object} Verdict what an answer comes to
 * @property {Judged[]} judged reports that it settles
 * @property {Unsent | null} failure why others wait on
 * @property {(state: LedgerState) => void} [forget] what the ledger forgets because of it
 *
 * @typedef {object} Route
 * @property {() => void} check refuses where there is no such way
 * @property {{ url: string, kind: "reports" | "sealed", token?: string }} receiver where it leads
 * @property {(state: LedgerState, reports: string[]) => Waiting[]} read what is to be sent of some reports; refuses
 *   where another way was taken before. Once all of it is known, this way is the campaign's for good
 * @property {(part: Waiting[], ends: number) => Promise<Ready[]>} ready the same, all of it that waits still; or a
 *   refusal
 * @property {(part: Waiting[], again: () => void) => Promise<Ready[]>} atHand what of it is there without waiting for
 *   the network; `again` is called once there is more
 * @property {(part: Judged[]) => Promise<Verdict>} judge
 */

/**
 * The way that a campaign's reports go, or those of its series; null before the first is to be sent.
 *
 * @param {LedgerState} state
 * @param {Pick<Round, "id" | "series">} round
 */
export function wayTaken(state, round) {
  const ways = countedWith(state, round).map((id) => state.routes[id]?.way ?? null);
  return ways.find((way) => way !== null) ?? null;
}

/**
 * Takes a way for a campaign; refused where another was taken before, for it or for another wave of its series.
 *
 * @param {LedgerState} state
 * @param {Pick<Round, "id" | "series">} round
 * @param {"direct" | "relay"} way
 * @param {boolean} isTaken whether something is to be sent, so that it is this way from now on
 */
export function takeWay(state, round, way, isTaken) {
  const taken = wayTaken(state, round);
  if (taken !== null && taken !== way) refuse("other-route");
  if (isTaken) routeOf(state, round.id).way = way;
}

/** @implements {Route} */
export class DirectRoute {
  #round;
  #options;

  /**
   * @param {Round} round
   * @param {Settled} options
   */
  constructor(round, options) {
    this.#round = round;
    this.#options = options;
  }

  check() {
    if (this.#round.campaign.relay === "required") refuse("relay-required");
    if (this.#options.url === undefined) refuse("no-collector");
  }

  get receiver() {
    const { url, token } = this.#options;
    return { url: /** @type {string} */ (url), kind: /** @type {const} */ ("reports"), token };
  }

  /**
   * @param {LedgerState} state
   * @param {string[]} reports
   * @returns {Ready[]}
   */
  read(state, reports) {
    takeWay(state, this.#round, "direct", reports.length > 0);
    return reports.map((report) => ({ report, sent: report }));
  }

  /** @param {Waiting[]} part */
  async ready(part) {
    return /** @type {Ready[]} */ (part);
  }

  /** @param {Waiting[]} part */
  atHand(part) {
    return this.ready(part);
  }

  /** @param {Judged[]} judged */
  async judge(judged) {
    return { judged, failure: null };
  }
}
