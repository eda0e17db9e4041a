/**
 * One vote: a device's answer to a round, made once, ever.
 *
 * Asked again, with whatever record, the kept bytes are repeated and the record is not read. The price, the pin of the
 * description and the bytes are written down in one transaction, before anybody sees them. Nothing here sends.
 */
import { answerTo, enqueue, unitsSpent } from "../ledgers/states.js";
import { fromHex, hmac, toHex, toUtf8 } from "../numerics/bytes.js";
import { isWithin } from "../numerics/exact.js";
import { Reading } from "../reading.js";
import { readRecord } from "../records.js";
import { refuse, Refused } from "../refusals.js";
import { publicWord, writeReport } from "../report/reports.js";
import { requireConsent } from "./consent.js";
import { within } from "./deadline.js";
import { transact } from "./transactions.js";

/**
 * @import { Held, LedgerState, Round } from "../../index.d.ts"
 * @import { Settled } from "./options.js"
 *
 * @typedef {Settled & { ids: NonNullable<Settled["ids"]> }} Voting options of a device that knows where ids come from
 * @typedef {{ bytes: string, reading: Reading | null }} Cast a report in hexadecimal digits, and what was read for it:
 *   null where the answer was given before
 */

export const ID_BYTES = 16;
const NONCE_BYTES = 16;

/**
 * What a device with this secret asks for the id of its answer to a round with, in hexadecimal digits.
 *
 * @param {string} secret
 * @param {string} campaign
 * @param {number} round
 */
export async function nonceOf(secret, campaign, round) {
  return toHex((await hmac(fromHex(secret), toUtf8(`nonce ${campaign} ${round}`))).slice(0, NONCE_BYTES));
}

export class Vote {
  #round;
  #options;
  /**
   * What follows from the ledger's secret, once it was read: the device's place among the groups, a number out of
   * 2^256, and the nonce that it asks for an id with.
   *
   * @type {{ secret: string, place: bigint, nonce: string } | null}
   */
  #known = null;

  /**
   * @param {Round} round
   * @param {Voting} options
   */
  constructor(round, options) {
    this.#round = round;
    this.#options = options;
  }

  /**
   * The answer, kept or new; with the person's yes also queued.
   *
   * @param {Held} held
   * @param {{ needsYes: boolean }} how
   * @returns {Promise<Cast>}
   */
  async cast(held, { needsYes }) {
    const kept = await this.#withPlace((state, place) => this.#keptAnswer(state, place, needsYes));
    if (kept) return kept;
    // No network inside the ledger's transaction: the id is fetched first, and then everything is asked again.
    const reportId = await this.#newId();
    const { tag, number } = this.#round;
    const word = await publicWord(tag, number, reportId);
    return this.#withPlace(
      (state, place) =>
        this.#keptAnswer(state, place, needsYes) ??
        this.#newAnswer(state, held, { reportId, word, isQueued: needsYes }),
    );
  }

  /**
   * All that is asked before the record is read: the kept bytes, null if a new answer may be made, or a refusal.
   *
   * @param {LedgerState} state
   * @param {bigint} place
   * @param {boolean} needsYes
   * @returns {Cast | null}
   */
  #keptAnswer(state, place, needsYes) {
    const { id, number, pin, campaign } = this.#round;
    requireConsent(state, this.#options.environment, needsYes);
    if (state.latest >= campaign.end) refuse("expired");
    const known = answerTo(state, id, number);
    if (known) {
      if (known.pin !== null && known.pin !== pin) refuse("pinned");
      if (known.bytes === null) refuse("answered");
      if (needsYes) enqueue(state, id, known.bytes, this.#options);
      return { bytes: known.bytes, reading: null };
    }
    this.#requireGroup(place);
    this.#requireBudget(state);
    return null;
  }

  /** @param {bigint} place */
  #requireGroup(place) {
    const [low, high] = this.#round.group;
    const isAsked = low.n << 256n <= place * low.d && place * high.d < high.n << 256n;
    if (!isAsked) refuse("other-group");
  }

  /** @param {LedgerState} state */
  #requireBudget(state) {
    const { id, price, campaign } = this.#round;
    const { campaignCap, lifetimeCap } = this.#options;
    const here = unitsSpent(state, id) + price;
    if (!isWithin(here, campaign.epsilon)) refuse("over-promise");
    if (!isWithin(here, campaignCap)) refuse("over-campaign-cap");
    if (!isWithin(unitsSpent(state) + price, lifetimeCap)) refuse("over-lifetime-cap");
  }

  /**
   * Only here is the record read.
   *
   * @param {LedgerState} state
   * @param {Held} held
   * @param {{ reportId: Uint8Array, word: bigint, isQueued: boolean }} how
   * @returns {Cast}
   */
  #newAnswer(state, held, { reportId, word, isQueued }) {
    const { id, number, pin, price, mechanism, campaign } = this.#round;
    const record = readRecord(this.#round, held);
    const reading = new Reading(campaign, held);
    const words = this.#options.entropy(8 * mechanism.nWords);
    const bytes = toHex(writeReport(this.#round, record, words, reportId, word));
    state.answers.push({ campaign: id, round: number, pin, units: String(price), bytes, sealed: null });
    if (isQueued) enqueue(state, id, bytes, this.#options);
    return { bytes, reading };
  }

  /** Asked for with a nonce that follows from the ledger's secret: stored before it is sent, and always the same. */
  async #newId() {
    const { ids, timeout } = this.#options;
    const nonce = this.#round.campaign.issuesIds ? this.#known?.nonce : undefined;
    const id = await within(timeout, async () => ids(nonce)).catch((error) => {
      throw error instanceof Refused ? error : new Refused("no-id");
    });
    return id instanceof Uint8Array && id.length === ID_BYTES ? id : refuse("no-id");
  }

  /**
   * A transaction that knows the device's place among the groups.
   *
   * @template T
   * @param {(state: LedgerState, place: bigint) => T} change
   * @returns {Promise<T>}
   */
  async #withPlace(change) {
    for (;;) {
      const known = this.#known;
      /** @type {(state: LedgerState) => { secret: null, result: T } | { secret: string }} */
      const attempt = (state) =>
        state.secret === known?.secret
          ? { secret: null, result: change(state, known.place) }
          : { secret: state.secret };
      const outcome = await transact(this.#options, attempt);
      if (outcome.secret === null) return outcome.result;
      const { secret } = outcome;
      const { id, number } = this.#round;
      const drawn = await hmac(fromHex(secret), toUtf8(`place ${id}`));
      this.#known = { secret, place: BigInt(`0x${toHex(drawn)}`), nonce: await nonceOf(secret, id, number) };
    }
  }
}
