/**
 * The way through a relay. Where a campaign requires it nothing goes to the collector, whatever fails.
 *
 * A report is sealed once and kept so beside the answer: other bytes would be carried twice. A relay that named the key
 * alone could name its own and read what it carries; a collector that did could give each device a key of its own and
 * know who is who. So both are asked, and reports are sealed to the newest of the collector's keys that the relay lists
 * too: a relay takes reports for listed keys alone. A key that the application ships stands above both, and nobody is
 * asked.
 */
import { fromHex, sha256, toHex } from "../numerics/bytes.js";
import { refuse, Refused, refuseSaying } from "../refusals.js";
import { readReport } from "../report/reports.js";
import { sealReport } from "../sealing/sealed.js";
import { putOff } from "./backoff.js";
import { requireConsent } from "./consent.js";
import { sharedKey } from "./keys.js";
import { takeWay } from "./route.js";
import { transact } from "./transactions.js";
import { checkAddress, checkToken } from "./transport.js";

/**
 * @import { LedgerState, Relay, Round } from "../../index.d.ts"
 * @import { Settled } from "./options.js"
 * @import { Judged, Ready, Route, Verdict, Waiting } from "./route.js"
 *
 * @typedef {Settled & { relay: Relay }} Relaying
 */

// Milliseconds for which keys that were asked for are believed.
const FRESH = 300_000;
// Where a sealed report names its key, in hexadecimal digits.
const KEY_ID = 2;
const KEY_ID_END = 18;
// What a relay says of a report whose key the collector lists no more.
const UNKNOWN_KEY = "unknown-key";

const KEY = /^[0-9a-f]{64}$/i;

/**
 * @param {Waiting} one
 * @returns {one is Ready}
 */
function isReady(one) {
  return one.sent !== null;
}

/** @implements {Route} */
export class RelayRoute {
  #round;
  #options;
  /** @type {{ key: string, until: number } | null} */
  #asked = null;
  #isAsking = false;

  /**
   * @param {Round} round
   * @param {Relaying} options
   */
  constructor(round, options) {
    const { url, key, token } = options.relay;
    checkAddress(url);
    checkToken(token);
    const isKey = key === undefined || (typeof key === "string" && KEY.test(key));
    if (!isKey) throw new TypeError("a collector's key is 64 hexadecimal digits");
    this.#round = round;
    this.#options = options;
  }

  check() {
    if (this.#round.campaign.relay === "none") refuse("not-relayed");
  }

  /** The collector's token is not for the relay: it may tell devices apart. */
  get receiver() {
    const { url, token } = this.#options.relay;
    return { url, kind: /** @type {const} */ ("sealed"), token };
  }

  /**
   * @param {LedgerState} state
   * @param {string[]} reports
   * @returns {Waiting[]}
   */
  read(state, reports) {
    const part = reports.map((report) => ({ report, sent: this.#answerTo(state, report)?.sealed ?? null }));
    takeWay(state, this.#round, "relay", part.length > 0 && part.every(isReady));
    return part;
  }

  /**
   * Keeps how reports are sealed, if the person still agrees; where that cannot be done the next attempt is put off.
   *
   * @param {Waiting[]} part
   * @param {number} ends
   * @returns {Promise<Ready[]>}
   */
  async ready(part, ends) {
    const unsealed = part.filter((one) => !isReady(one));
    const key = unsealed.length ? await this.#key(ends) : "";
    /** @type {Map<string, string>} */
    const made = new Map();
    for (const { report } of unsealed) made.set(report, await this.#sealed(report, key));
    const reports = part.map(({ report }) => report);
    return transact(this.#options, (state) => {
      requireConsent(state, this.#options.environment, true);
      for (const [report, sealed] of made) {
        const answer = this.#answerTo(state, report);
        // Whoever sealed it first meanwhile has sealed it.
        if (answer) answer.sealed ??= sealed;
      }
      // What somebody settled or wiped meanwhile is not sent.
      const waiting = new Set(state.queue.map((item) => item.report));
      const left = reports.filter((report) => waiting.has(report));
      return this.read(state, left).map((one) => (isReady(one) ? one : refuse("ledger-corrupt")));
    });
  }

  /**
   * @param {Waiting[]} part
   * @param {() => void} again
   */
  async atHand(part, again) {
    const ends = performance.now() + this.#options.timeout;
    if (part.every(isReady)) return part;
    if (this.#knownKey() !== null) return this.ready(part, ends);
    if (!this.#isAsking) {
      this.#isAsking = true;
      // What cannot be sealed is said to whoever uploads.
      this.ready(part, ends)
        .then(again, () => {})
        .finally(() => (this.#isAsking = false));
    }
    return part.filter(isReady);
  }

  /**
   * Reports whose key is unknown wait on. They are sealed again, to a key that is asked for anew; but for those that
   * are sealed to the key that the application ships.
   *
   * @param {Judged[]} part
   * @returns {Promise<Verdict>}
   */
  async judge(part) {
    const judged = part.filter(({ status }) => status !== UNKNOWN_KEY);
    const unopened = part.filter(({ status }) => status === UNKNOWN_KEY);
    if (!unopened.length) return { judged, failure: null };
    this.#asked = null;
    const { key } = this.#options.relay;
    const own = key === undefined ? null : toHex(await sha256(fromHex(key))).slice(0, KEY_ID_END - KEY_ID);
    const outdated = unopened.filter(({ sent }) => sent.slice(KEY_ID, KEY_ID_END) !== own);
    const code = outdated.length < unopened.length ? "keys-differ" : "waiting";
    return {
      judged,
      failure: { code, said: "", after: null },
      forget: (state) => {
        for (const { report, sent } of outdated) {
          const answer = this.#answerTo(state, report);
          if (answer?.sealed === sent) answer.sealed = null;
        }
      },
    };
  }

  /**
   * @param {LedgerState} state
   * @param {string} report
   */
  #answerTo({ answers }, report) {
    return answers.find(({ campaign, bytes }) => campaign === this.#round.id && bytes === report);
  }

  #knownKey() {
    const { relay, now } = this.#options;
    if (relay.key !== undefined) return relay.key;
    return this.#asked !== null && now() < this.#asked.until ? this.#asked.key : null;
  }

  /** @param {number} ends */
  async #key(ends) {
    const known = this.#knownKey();
    if (known !== null) return known;
    const { relay, url, fetch, now } = this.#options;
    const found = await sharedKey({ relay: relay.url, collector: url, fetch, ends });
    if (typeof found !== "string") return this.#putOff(found.code, found);
    this.#asked = { key: found, until: now() + FRESH };
    return found;
  }

  /**
   * @param {string} report
   * @param {string} key
   */
  async #sealed(report, key) {
    const bytes = fromHex(report);
    try {
      const { round } = readReport(bytes);
      return toHex(await sealReport(bytes, { key, campaign: this.#round.id, round }));
    } catch (error) {
      if (error instanceof Refused) throw error;
      // A key to which nothing can be sealed.
      return this.#putOff("keys-differ");
    }
  }

  /**
   * @param {string} code
   * @param {{ said: string, after: string | null }} [why]
   * @returns {Promise<never>}
   */
  async #putOff(code, { said, after } = { said: "", after: null }) {
    await putOff(this.#round.id, this.#options, after);
    return refuseSaying(code, said);
  }
}
