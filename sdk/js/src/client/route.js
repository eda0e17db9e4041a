/**
 * The way that a campaign's reports go: directly to the collector, or sealed through a relay.
 *
 * The campaign says which ways there are, the application which it takes, and the ledger which was taken before: a
 * report that came both ways would show who sent it. Where a campaign requires a relay nothing goes to the collector,
 * whatever fails.
 *
 * A report is sealed once and kept so beside the answer: other bytes would be carried twice. A relay that named the key
 * alone could name its own and read what it carries; a collector that did could give each device a key of its own and
 * know who is who. So both are asked, and reports are sealed to the newest of the collector's keys that the relay lists
 * too: a relay takes reports for listed keys alone. A key that the application ships stands above both, and nobody is
 * asked.
 */
import { routeOf } from "../ledgers/states.js";
import { fromHex, sha256, toHex } from "../numerics/bytes.js";
import { refuse, Refused } from "../refusals.js";
import { readReport } from "../report/reports.js";
import { requireConsent } from "./consent.js";
import { transact } from "./transactions.js";
import { fetchKeys, isSamePlace } from "./transport.js";

/**
 * @import { LedgerAnswer, LedgerState, Relay, Round } from "../../index.d.ts"
 * @import { Settled } from "./options.js"
 * @import { Receiver, Unsent } from "./transport.js"
 *
 * @typedef {object} Waiting a report of the queue, in hexadecimal digits
 * @property {string} report
 * @property {string | null} sent what goes over the network for it; null where it is not sealed yet
 */

// Milliseconds for which keys that were asked for are believed.
const FRESH = 300_000;
// Where a sealed report names its key, in hexadecimal digits.
const [KEY_ID, KEY_ID_END] = [2, 18];

export class Route {
  #round;
  #options;
  /** @type {{ key: string, until: number } | null} */
  #asked = null;

  /**
   * @param {Round} round
   * @param {Settled} options
   */
  constructor(round, options) {
    this.#round = round;
    this.#options = options;
  }

  /** Which way it is, or a refusal. */
  get way() {
    const { relay, url } = this.#options;
    const { campaign } = this.#round;
    if (relay && campaign.relay === "none") refuse("not-relayed");
    if (relay) return "relay";
    if (campaign.relay === "required") refuse("relay-required");
    return url === undefined ? refuse("no-collector") : "direct";
  }

  /**
   * Where it leads. A relay gets no token: that is the collector's, and would tell devices apart.
   *
   * @returns {Receiver}
   */
  get receiver() {
    const { relay, url, token } = this.#options;
    const campaign = this.#round.id;
    if (this.way === "relay") return { url: /** @type {Relay} */ (relay).url, kind: "sealed", campaign };
    return { url: /** @type {string} */ (url), kind: "reports", campaign, token };
  }

  /**
   * The reports of the queue, with what is to be sent of each. Where all of it is known, this way is the campaign's
   * from now on; another that was taken before is refused.
   *
   * @param {LedgerState} state
   * @param {string[]} reports
   * @returns {Waiting[]}
   */
  read(state, reports) {
    const { way } = this;
    const route = routeOf(state, this.#round.id);
    if (route.way !== null && route.way !== way) refuse("other-route");
    const waiting = reports.map((report) => ({
      report,
      sent: way === "direct" ? report : this.#answerOf(state, report).sealed,
    }));
    if (waiting.length && waiting.every(({ sent }) => sent !== null)) route.way = way;
    return waiting;
  }

  /**
   * Reports with all of them sealed, or why they cannot be. Keeps how they were sealed, if the person still agrees.
   *
   * @param {Waiting[]} part
   * @param {number} ends
   * @returns {Promise<Waiting[] | Unsent>}
   */
  async sealed(part, ends) {
    const unsealed = part.filter(({ sent }) => sent === null);
    if (!unsealed.length) return part;
    const found = await this.#key(ends);
    if (typeof found !== "string") return found;
    const made = new Map();
    for (const { report } of unsealed) {
      const bytes = await this.#seal(report, found);
      if (bytes === null) return { code: "keys-differ", said: "", after: null };
      made.set(report, toHex(bytes));
    }
    const { environment } = this.#options;
    return transact(this.#options, (state) => {
      requireConsent(state, environment, true);
      // Whoever sealed it first meanwhile has sealed it.
      for (const [report, bytes] of made) this.#answerOf(state, report).sealed ??= bytes;
      return this.read(
        state,
        part.map(({ report }) => report),
      );
    });
  }

  /** Whether reports can be sealed without asking anybody. */
  get knowsKey() {
    return this.#known() !== null;
  }

  /**
   * Which of some sealed reports may go well if they are sealed again: not those that are sealed to the key that the
   * application ships. Keys are asked for anew.
   *
   * @param {Waiting[]} part
   */
  async outdated(part) {
    this.#asked = null;
    const { key } = this.#relay;
    const own = key === undefined ? null : toHex(await sha256(fromHex(key))).slice(0, KEY_ID_END - KEY_ID);
    return part.filter(({ sent }) => sent?.slice(KEY_ID, KEY_ID_END) !== own);
  }

  /**
   * Forgets how reports were sealed: nobody opens them so.
   *
   * @param {LedgerState} state
   * @param {Waiting[]} part
   */
  forget(state, part) {
    for (const { report, sent } of part) {
      const answer = this.#find(state, report);
      if (answer?.sealed === sent) answer.sealed = null;
    }
  }

  get #relay() {
    return /** @type {Relay} */ (this.#options.relay);
  }

  /**
   * @param {LedgerState} state
   * @param {string} report
   */
  #find({ answers }, report) {
    return answers.find(({ campaign, bytes }) => campaign === this.#round.id && bytes === report);
  }

  /**
   * @param {LedgerState} state
   * @param {string} report
   * @returns {LedgerAnswer}
   */
  #answerOf(state, report) {
    return this.#find(state, report) ?? refuse("answered");
  }

  #known() {
    const { key } = this.#relay;
    if (key !== undefined) return key;
    return this.#asked !== null && this.#options.now() < this.#asked.until ? this.#asked.key : null;
  }

  /**
   * The key to seal to, or why there is none.
   *
   * @param {number} ends
   * @returns {Promise<string | Unsent>}
   */
  async #key(ends) {
    const known = this.#known();
    if (known !== null) return known;
    const { url, fetch, now } = this.#options;
    const relay = this.#relay.url;
    // Who lists its own keys twice proves nothing.
    if (url === undefined || isSamePlace(url, relay)) return { code: "no-collector", said: "", after: null };
    const listed = await fetchKeys({ url: relay, fetch, ends });
    if (!("keys" in listed)) return listed;
    const own = await fetchKeys({ url, fetch, ends });
    if (!("keys" in own)) return own;
    const key = own.keys.find((one) => listed.keys.includes(one));
    if (key === undefined) return { code: "keys-differ", said: "", after: null };
    this.#asked = { key, until: now() + FRESH };
    return key;
  }

  /**
   * A sealed report; null for a key to which nothing can be sealed.
   *
   * @param {string} report
   * @param {string} key
   */
  async #seal(report, key) {
    const bytes = fromHex(report);
    const { round } = readReport(bytes);
    return this.#relay.seal(bytes, { key, campaign: this.#round.id, round }).catch((error) => {
      if (error instanceof Refused) throw error;
      return null;
    });
  }
}
