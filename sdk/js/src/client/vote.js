/**
 * One vote: a device's answer to a round, made once, ever.
 *
 * Asked again, with whatever record, the kept bytes are repeated and the record is not read. The price, the pin of the
 * description and the bytes are written down in one transaction, before anybody sees them. Nothing here sends.
 */
import { clearLabels, privateLabel } from "../descriptions/segments.js";
import { panelOf } from "../descriptions/series.js";
import { answerTo, enqueue, joinSeries, unitsInAll, unitsSince, unitsSpent } from "../ledgers/states.js";
import { fromHex, hmac, toHex, toUtf8 } from "../numerics/bytes.js";
import { ceilDiv, exactly, isWithin, UNIT_BITS } from "../numerics/exact.js";
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
/** Milliseconds in the year that a yearly cap looks back. */
export const YEAR = 365 * 86_400_000;

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

/**
 * A number out of 2^256 that nobody without the secret can guess.
 *
 * @param {string} secret
 * @param {string} label
 */
const drawnFrom = async (secret, label) => BigInt(`0x${toHex(await hmac(fromHex(secret), toUtf8(label)))}`);

/**
 * The waves of the round's series that a device with this secret answers; null where there is no series.
 *
 * @param {Round} round
 * @param {string} secret
 */
export async function panelIn({ series, campaign }, secret) {
  return campaign.series && panelOf(campaign.series, await drawnFrom(secret, `panel ${series}`));
}

/**
 * What a campaign may cost in all its waves, in units, rounded up.
 *
 * @param {Round["campaign"]} campaign
 */
function wholePrice({ epsilon, series }) {
  const { n, d } = exactly(epsilon);
  return ceilDiv((n * BigInt(series?.answers ?? 1)) << UNIT_BITS, d);
}

export class Vote {
  #round;
  #options;
  /**
   * What follows from the ledger's secret, once it was read: the device's place among the groups, a number out of
   * 2^256, the waves of the series that it answers, and the nonce that it asks for an id with.
   *
   * @type {{ secret: string, place: bigint, panel: number[] | null, nonce: string } | null}
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
    this.#requireWave(state);
    this.#requireGroup(place);
    this.#requireBudget(state);
    return null;
  }

  /**
   * Refuses a wave that asks other devices, and another campaign for one that was answered.
   *
   * @param {LedgerState} state
   */
  #requireWave(state) {
    const { id, series, campaign } = this.#round;
    if (series === null || campaign.series === null) return;
    const { wave } = campaign.series;
    if (!this.#known?.panel?.includes(wave)) refuse("other-wave");
    if ((state.series[series]?.waves[wave] ?? id) !== id) refuse("pinned");
  }

  /** @param {bigint} place */
  #requireGroup(place) {
    const [low, high] = this.#round.group;
    const isAsked = low.n << 256n <= place * low.d && place * high.d < high.n << 256n;
    if (!isAsked) refuse("other-group");
  }

  /** @param {LedgerState} state */
  #requireBudget(state) {
    const { id, price, campaign, series } = this.#round;
    const { campaignCap, lifetimeCap, yearlyCap } = this.#options;
    const here = unitsSpent(state, id) + price;
    // Of a wave the caps are asked to cover the whole series; with its first answer all of it is spent.
    const whole = wholePrice(campaign);
    const more = series === null ? price : whole - BigInt(state.series[series]?.units ?? 0);
    if (!isWithin(here, campaign.epsilon)) refuse("over-promise");
    if (!isWithin(series === null ? here : whole, campaignCap)) refuse("over-campaign-cap");
    if (lifetimeCap < Infinity && !isWithin(unitsInAll(state) + more, lifetimeCap)) refuse("over-lifetime-cap");
    if (yearlyCap === null) return;
    if (!isWithin(unitsSince(state, state.latest - YEAR) + price, yearlyCap)) refuse("over-yearly-cap");
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
    const { id, number, pin, price, mechanism, campaign, series } = this.#round;
    const record = readRecord(this.#round, held, privateLabel(campaign.segments, this.#options.segments));
    const reading = new Reading(campaign, held);
    const words = this.#options.entropy(8 * mechanism.nWords);
    const labels = clearLabels(campaign.segments, this.#options.segments);
    const bytes = toHex(writeReport(this.#round, record, words, reportId, word, labels));
    const units = String(price);
    state.answers.push({ campaign: id, round: number, pin, units, at: state.latest, bytes, sealed: null });
    if (series !== null && campaign.series) {
      joinSeries(state, series, { wave: campaign.series.wave, campaign: id, units: wholePrice(campaign) });
    }
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
      this.#known = {
        secret,
        place: await drawnFrom(secret, `place ${id}`),
        panel: await panelIn(this.#round, secret),
        nonce: await nonceOf(secret, id, number),
      };
    }
  }
}
