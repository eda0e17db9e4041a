/**
 * A device: one round of one campaign, one vote.
 *
 *     report(held)    bytes: made, paid for and kept; not sent
 *     submit(held)    the same, and queued; needs the person's yes
 *     upload()        sends what waits, for at most `timeout`
 *     uploadOnHide()  from now on also when the page is hidden or left
 *     enable() disable() status() explain(held)
 */
import { readDescription, readView, readWave } from "../descriptions/round.js";
import { clearLabels } from "../descriptions/segments.js";
import { answersIn, answerTo, countedWith, routeOf, unitsInAll, unitsSince, unitsSpent } from "../ledgers/states.js";
import { fromHex, randomBytes } from "../numerics/bytes.js";
import { toFloat } from "../numerics/exact.js";
import { readRecord } from "../records.js";
import { refuse, Refused, SENTENCES } from "../refusals.js";
import { HEADER_BYTES } from "../report/reports.js";
import { asksNotToTrack } from "./consent.js";
import { tell } from "./explain.js";
import { Hiding, tellPages } from "./hiding.js";
import { settled } from "./options.js";
import { DirectRoute, wayTaken } from "./route.js";
import { transact } from "./transactions.js";
import { fetchView, issuedIds, isSamePlace, splitAddress } from "./transport.js";
import { uploadQueues } from "./upload.js";
import { ID_BYTES, panelIn, Vote, YEAR } from "./vote.js";

/**
 * @import { Code, Held, LedgerState, Options, Outcome, RefusedReport, Round } from "../../index.d.ts"
 * @import { Status, Submitted } from "../../index.d.ts"
 * @import { Settled } from "./options.js"
 * @import { Route } from "./route.js"
 * @import { Voting } from "./vote.js"
 */

/**
 * Where ids come from: whoever the caller names, the collector of a campaign that issues them, or chance.
 *
 * @param {Round} round
 * @param {Settled} options
 * @param {boolean} [areIssued]
 * @returns {Voting["ids"]}
 */
function idsOf({ id, campaign }, { ids, url, token, fetch, timeout }, areIssued = campaign.issuesIds) {
  if (ids) return ids;
  if (!areIssued) return () => randomBytes(ID_BYTES);
  // An id of the device's own would never count, and its answer would be spent.
  return url === undefined ? () => refuse("no-id") : issuedIds({ url, campaign: id, token, fetch, timeout });
}

/**
 * The way that reports go.
 *
 * @param {Round} round
 * @param {Settled} options
 * @returns {Route}
 */
function wayOf(round, options) {
  if (!options.relay) return new DirectRoute(round, options);
  return /** @type {Route} */ (options.relay.seal(round, /** @type {never} */ (options)));
}

/**
 * What every method yields: `ok`, a stable code, and for a refusal its sentence and what the collector said.
 *
 * @template {object} T
 * @param {() => Promise<T | void>} work
 * @returns {Promise<Outcome<T>>}
 */
async function outcomeOf(work) {
  try {
    const done = /** @type {T} */ (await work());
    return { ok: true, code: "done", ...done };
  } catch (error) {
    // A stranger's message may quote the record; the code cannot.
    const code = /** @type {Code} */ (error instanceof Refused ? error.code : "fault");
    return { ok: false, code, reason: SENTENCES[code], detail: error instanceof Refused ? error.said : "" };
  }
}

/**
 * What is sent, and where to.
 *
 * @param {Round} round
 * @param {Settled} options
 */
const sendingOf = (round, options) => ({ campaign: round.id, options, route: wayOf(round, options) });

export class Device {
  #round;
  #options;
  #vote;
  #sending;
  #hiding;

  /**
   * Use `Device.open` or `Device.connect`.
   *
   * @param {Round} round
   * @param {Voting} options
   */
  constructor(round, options) {
    this.#round = round;
    this.#options = options;
    this.#vote = new Vote(round, options);
    this.#sending = sendingOf(round, options);
    this.#hiding = new Hiding(this.#sending);
  }

  /**
   * A device for the description of a round; throws `Refused` for one that it does not answer.
   *
   * @param {unknown} description
   * @param {Options} [options]
   */
  static async open(description, options = {}) {
    const chosen = settled(options);
    const round = await readDescription(description);
    return new Device(round, { ...chosen, ids: idsOf(round, chosen) });
  }

  /**
   * A device for the open round of the campaign at HOST/v1/campaigns/ID; the campaign must have that id. Or for the
   * open wave of the series at HOST/v1/series/ID; the wave's text must lead to that id. The host may be the relay's:
   * the id is the campaign's hash, so a relay cannot change the campaign, and a round that it describes otherwise is
   * checked and pinned as any. A relay is not shown the collector's token, and is not taken for it.
   *
   * @param {string} url
   * @param {Options} [options]
   */
  static async connect(url, options = {}) {
    const { base, id, isSeries } = splitAddress(url);
    const chosen = settled({ url: base, ...options });
    const { relay } = chosen;
    const token = relay && isSamePlace(base, relay.url) ? undefined : chosen.token;
    const view = await fetchView({ ...chosen, token, url, isSeries });
    const round = await (isSeries ? readWave : readView)(view, id);
    // An older collector's campaign does not say itself that ids are issued. One that a relay may carry issues none:
    // whoever hands out ids knows whose report is whose.
    const areIssued = round.campaign.issuesIds || (view.areIdsIssued && round.campaign.relay === "none");
    return new Device(round, { ...chosen, ids: idsOf(round, chosen, areIssued) });
  }

  /** The campaign's id. */
  get id() {
    return this.#round.id;
  }

  /** What one answer costs, as an epsilon rounded up. */
  get price() {
    return toFloat(this.#round.price);
  }

  /** The person agrees. */
  enable() {
    return outcomeOf(() => this.#hiding.readyAfter(transact(this.#options, (state) => void (state.consent = "given"))));
  }

  /** The person does not, or no longer: queue and kept bytes of all campaigns are wiped. What was spent stays spent. */
  disable() {
    return outcomeOf(async () => {
      this.#hiding.forget();
      await transact(this.#options, (state) => {
        state.consent = "withdrawn";
        state.queue = [];
        for (const answer of state.answers) answer.bytes = answer.sealed = null;
      });
      this.#hiding.forget();
      tellPages(this.#options.environment);
    });
  }

  /**
   * The answer to the round, as bytes for the caller; nothing is queued or sent.
   *
   * @param {Held} held
   * @returns {Promise<Outcome<{ bytes: Uint8Array }>>}
   */
  report(held) {
    return outcomeOf(async () => ({ bytes: fromHex((await this.#vote.cast(held, { needsYes: false })).bytes) }));
  }

  /**
   * The answer to the round, queued for `upload`, if the person said yes. Tells whether it repeats what was said
   * before, in which case the record was not read, or else what of it was not taken as it was; on this device alone.
   *
   * @param {Held} held
   * @returns {Promise<Outcome<Submitted>>}
   */
  submit(held) {
    return outcomeOf(async () => {
      const { reading } = await this.#hiding.readyAfter(this.#vote.cast(held, { needsYes: true }));
      return { isRepeat: reading === null, reading };
    });
  }

  /**
   * Sends what waits, batch by batch, until nothing is left, a batch fails or `timeout` milliseconds are over. For a
   * wave what waits of the series' other waves is sent as well, each to its own wave.
   * `refused` says which reports will never count and why, one entry a report.
   *
   * @param {number} [timeout]
   */
  async upload(timeout = this.#options.timeout) {
    /** @type {{ sent: number, refused: RefusedReport[] }} */
    const tally = { sent: 0, refused: [] };
    const ends = performance.now() + timeout;
    const outcome = await outcomeOf(() => this.#hiding.readyAfter(this.#uploadAll(ends, tally)));
    return { ...outcome, ...tally };
  }

  /**
   * @param {number} ends
   * @param {{ sent: number, refused: RefusedReport[] }} tally
   */
  async #uploadAll(ends, tally) {
    const round = this.#round;
    const waves = round.series === null ? [] : await transact(this.#options, (state) => wavesWaiting(state, round));
    const earlier = waves.map((id) => sendingOf({ ...round, id }, this.#options));
    await uploadQueues([this.#sending, ...earlier], ends, tally);
  }

  /**
   * In a page: from now on what waits is sent when the page is hidden or left, by a request that outlives it.
   * Yields a function that ends this. Where there is no page nothing happens.
   */
  uploadOnHide() {
    return this.#hiding.listen();
  }

  /**
   * What was spent, what was promised, the most that can ever be spent, and what waits. Epsilons are rounded up.
   *
   * @returns {Promise<Outcome<Status>>}
   */
  status() {
    return outcomeOf(() => transact(this.#options, (state) => this.#statusIn(state)));
  }

  /**
   * For the person, in words: what is true, what was sent, what can be guessed from it. For this screen only.
   *
   * @param {Held} held
   * @returns {Promise<Outcome<{ text: string }>>}
   */
  explain(held) {
    return outcomeOf(async () => {
      const { id, number, campaign, mechanism } = this.#round;
      readRecord(this.#round, held);
      const [status, bytes, secret] = await transact(
        this.#options,
        (state) => /** @type {const} */ ([this.#statusIn(state), answerTo(state, id, number)?.bytes, state.secret]),
      );
      const payload = bytes ? fromHex(bytes).subarray(HEADER_BYTES) : null;
      const sent = payload && payload.subarray(0, mechanism.layout.nBytes);
      const labels = payload
        ? [...payload.subarray(mechanism.layout.nBytes)]
        : clearLabels(campaign.segments, this.#options.segments);
      const panel = await panelIn(this.#round, secret);
      return { text: tell({ campaign, panel, held, sent, labels, price: this.price, status }) };
    });
  }

  /**
   * @param {LedgerState} state
   * @returns {Status}
   */
  #statusIn(state) {
    const { campaignCap, lifetimeCap, yearlyCap, environment } = this.#options;
    const { campaign, series } = this.#round;
    const counted = countedWith(state, this.#round);
    const routes = counted.map((id) => routeOf(state, id));
    const sum = (/** @type {"sent" | "refused" | "dropped"} */ of) => routes.reduce((all, route) => all + route[of], 0);
    const spentInAll = toFloat(unitsInAll(state));
    return {
      consent: asksNotToTrack(environment) ? "do not track" : state.consent,
      spent: toFloat(counted.reduce((units, id) => units + unitsSpent(state, id), 0n)),
      promised: campaign.epsilon * (campaign.series?.answers ?? 1),
      spentInAll,
      worstCase: Math.max(spentInAll, lifetimeCap),
      spentInAYear: toFloat(unitsSince(state, state.latest - YEAR)),
      campaignCap,
      lifetimeCap,
      yearlyCap,
      series,
      answers: counted.reduce((all, id) => all + answersIn(state, id), 0),
      route: wayTaken(state, this.#round),
      queued: state.queue.filter((item) => counted.includes(item.campaign)).length,
      sent: sum("sent"),
      refused: sum("refused"),
      dropped: sum("dropped"),
    };
  }
}

/**
 * The other waves of a round's series of which reports wait, the oldest first.
 *
 * @param {LedgerState} state
 * @param {Round} round
 */
function wavesWaiting(state, round) {
  const waves = countedWith(state, round);
  const waiting = new Set(state.queue.map(({ campaign }) => campaign));
  return [...waiting].filter((id) => id !== round.id && waves.includes(id));
}
