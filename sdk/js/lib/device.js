/**
 * A device: one round of one campaign, one vote.
 *
 *     report(held)    bytes: made, paid for and kept; not sent
 *     submit(held)    the same, and queued; needs the person's yes
 *     upload()        sends what waits, for at most `timeout`
 *     enable() disable() status() explain(held)
 *
 * A round is answered once, ever. Asked again, with whatever record, the device repeats the bytes it kept and does
 * not read the record. The price, the pin of the description and the bytes are written down in one transaction,
 * before anybody sees them.
 */
import { fromHex, hmac, randomBytes, toHex } from "./bytes.js";
import { refuse, Refused, SENTENCES } from "./codes.js";
import { readDescription } from "./descriptions.js";
import { isWithin, toFloat } from "./exact.js";
import { tell } from "./explain.js";
import { ownLedger } from "./ledgers.js";
import { readRecord } from "./records.js";
import { HEADER_BYTES, publicWord, writeReport } from "./reports.js";
import { answersIn, answerTo, enqueue, routeOf, unitsSpent } from "./states.js";
import { checkAddress, checkToken, fetchRound, issuedIds, refusedOf, sendReports } from "./transport.js";
import { splitAddress, TIMEOUT, waitAsked, within } from "./transport.js";

const ID_BYTES = 16;
const NONCE_BYTES = 16;
const LONGEST_ASKED = 86_400_000;

const DEFAULTS = {
  campaignCap: 4,
  lifetimeCap: 16,
  mostQueued: 100,
  mostQueuedBytes: 1 << 20,
  batch: 50,
  firstWait: 1_000,
  longestWait: 3_600_000,
  timeout: TIMEOUT,
  // The noise. Another source than the operating system's is for tests that script it; any other use ends all privacy.
  entropy: randomBytes,
  now: Date.now,
};

/** Whether the person asked, by a setting of the browser or the machine, not to be asked. */
export function asksNotToTrack(environment = globalThis) {
  const navigator = environment.navigator ?? {};
  const variable = environment.process?.env?.DO_NOT_TRACK?.trim().toLowerCase();
  return (
    navigator.globalPrivacyControl === true ||
    [navigator.doNotTrack, environment.doNotTrack].some((said) => said === "1" || said === "yes") ||
    (variable !== undefined && !["", "0", "false"].includes(variable))
  );
}

/** Options with their defaults; a cap that is no cap is a programming mistake. */
function settled(options) {
  const given = Object.fromEntries(Object.entries(options).filter(([, value]) => value !== undefined));
  const chosen = { fetch: globalThis.fetch?.bind(globalThis), environment: globalThis, ...DEFAULTS, ...given };
  for (const cap of [chosen.campaignCap, chosen.lifetimeCap]) {
    if (!(typeof cap === "number" && 0 < cap && cap < Infinity)) throw new TypeError("a cap is a positive number");
  }
  if (chosen.url !== undefined) checkAddress(chosen.url);
  checkToken(chosen.token);
  return { ...chosen, ledger: chosen.ledger ?? ownLedger() };
}

/** Where ids come from: whoever the caller names, the collector of a campaign that issues them, or chance. */
function idsOf({ id, campaign }, { ids, url, token, fetch, timeout }, areIssued = campaign.issuesIds) {
  if (ids) return ids;
  if (!areIssued) return () => randomBytes(ID_BYTES);
  // An id of the device's own would never count, and its answer would be spent.
  return url === undefined ? () => refuse("no-id") : issuedIds({ url, campaign: id, token, fetch, timeout });
}

/** What every method yields: `ok`, a stable code, and for a refusal its sentence. */
async function outcomeOf(work) {
  try {
    return { ok: true, code: "done", ...(await work()) };
  } catch (error) {
    // A stranger's message may quote the record; the code cannot.
    const code = error instanceof Refused ? error.code : "fault";
    return { ok: false, code, reason: SENTENCES[code] };
  }
}

/** What a device with this secret asks for the id of its answer to a round with, in hexadecimal digits. */
export async function nonceOf(secret, campaign, round) {
  return toHex((await hmac(fromHex(secret), `nonce ${campaign} ${round}`)).slice(0, NONCE_BYTES));
}

export class Device {
  #round;
  #ledger;
  #options;
  #place = { secret: null, number: null, nonce: null };

  /** Use `Device.open` or `Device.connect`. */
  constructor(round, options) {
    this.#round = round;
    this.#ledger = options.ledger;
    this.#options = options;
  }

  /** A device for the description of a round; throws `Refused` for one that it does not answer. */
  static async open(description, options = {}) {
    const chosen = settled(options);
    const round = await readDescription(description);
    return new Device(round, { ...chosen, ids: idsOf(round, chosen) });
  }

  /** A device for the open round of the campaign at HOST/v1/campaigns/ID; the campaign must have that id. */
  static async connect(url, options = {}) {
    const { base, campaign } = splitAddress(url);
    const chosen = settled({ url: base, ...options });
    const { description, areIdsIssued } = await fetchRound({ ...chosen, url });
    const round = await readDescription(description);
    if (round.id !== campaign) refuse("other-campaign");
    // An older collector's campaign does not say itself that ids are issued.
    const areIssued = areIdsIssued || round.campaign.issuesIds;
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
    return outcomeOf(() => this.#transact((state) => void (state.consent = "given")));
  }

  /** The person does not, or no longer: queue and kept bytes of all campaigns are wiped. What was spent stays spent. */
  disable() {
    return outcomeOf(() =>
      this.#transact((state) => {
        state.consent = "withdrawn";
        state.queue = [];
        for (const answer of state.answers) answer.bytes = null;
      }),
    );
  }

  /** The answer to the round, as bytes for the caller; nothing is queued or sent. */
  report(held) {
    return outcomeOf(async () => ({ bytes: fromHex(await this.#vote(held, { needsYes: false })) }));
  }

  /** The answer to the round, queued for `upload`, if the person said yes. */
  submit(held) {
    return outcomeOf(async () => void (await this.#vote(held, { needsYes: true })));
  }

  /**
   * Sends what waits, batch by batch, until nothing is left, a batch fails or `timeout` milliseconds are over.
   *
   * The collector answers with a status for each report, and its word is final: what it counts and what it refuses
   * both leave the queue. `refused` says why, one entry a report.
   */
  async upload(timeout = this.#options.timeout) {
    const tally = { sent: 0, refused: [] };
    const outcome = await outcomeOf(() => this.#upload(performance.now() + timeout, tally));
    return { ...outcome, ...tally };
  }

  /** What was spent, what was promised, the most that can ever be spent, and what waits. Epsilons are rounded up. */
  status() {
    return outcomeOf(() => this.#transact((state) => this.#status(state)));
  }

  /** For the person, in words: what is true, what was sent, what can be guessed from it. For this screen only. */
  explain(held) {
    return outcomeOf(async () => {
      const { id, number, campaign } = this.#round;
      readRecord(this.#round, held);
      const [status, bytes] = await this.#transact((state) => [
        this.#status(state),
        answerTo(state, id, number)?.bytes,
      ]);
      const sent = bytes && fromHex(bytes).subarray(HEADER_BYTES);
      return { text: tell({ campaign, held, sent, price: this.price, status }) };
    });
  }

  // --- one vote ---

  /** The report's bytes, kept or new, as hexadecimal digits. */
  async #vote(held, { needsYes }) {
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

  /** All that is asked before the record is read: the kept bytes, null if a new answer may be made, or a refusal. */
  #keptAnswer(state, place, needsYes) {
    const { id, number, pin } = this.#round;
    this.#requireConsent(state, needsYes);
    if (state.latest >= this.#round.campaign.end) refuse("expired");
    const known = answerTo(state, id, number);
    if (known) {
      if (known.pin !== null && known.pin !== pin) refuse("pinned");
      if (known.bytes === null) refuse("answered");
      if (needsYes) enqueue(state, id, known.bytes, this.#options);
      return known.bytes;
    }
    this.#requireGroup(place);
    this.#requireBudget(state);
    return null;
  }

  #requireConsent({ consent }, needsYes) {
    if (asksNotToTrack(this.#options.environment)) refuse("do-not-track");
    if (consent === "withdrawn") refuse("disabled");
    if (needsYes && consent === "unasked") refuse("not-enabled");
  }

  #requireGroup(place) {
    const [low, high] = this.#round.group;
    const isAsked = low.n << 256n <= place * low.d && place * high.d < high.n << 256n;
    if (!isAsked) refuse("other-group");
  }

  #requireBudget(state) {
    const { id, price, campaign } = this.#round;
    const { campaignCap, lifetimeCap } = this.#options;
    const here = unitsSpent(state, id) + price;
    if (!isWithin(here, campaign.epsilon)) refuse("over-promise");
    if (!isWithin(here, campaignCap)) refuse("over-campaign-cap");
    if (!isWithin(unitsSpent(state) + price, lifetimeCap)) refuse("over-lifetime-cap");
  }

  /** Only here is the record read. */
  #newAnswer(state, held, { reportId, word, isQueued }) {
    const { id, number, pin, price, mechanism } = this.#round;
    const record = readRecord(this.#round, held);
    const words = this.#options.entropy(8 * mechanism.nWords);
    const bytes = toHex(writeReport(this.#round, record, words, reportId, word));
    state.answers.push({ campaign: id, round: number, pin, units: String(price), bytes });
    if (isQueued) enqueue(state, id, bytes, this.#options);
    return bytes;
  }

  /** Asked for with a nonce that follows from the ledger's secret: stored before it is sent, and always the same. */
  async #newId() {
    const { ids, timeout } = this.#options;
    const nonce = this.#round.campaign.issuesIds ? this.#place.nonce : undefined;
    const id = await within(timeout, async () => ids(nonce)).catch((error) => {
      throw error instanceof Refused ? error : new Refused("no-id");
    });
    return id instanceof Uint8Array && id.length === ID_BYTES ? id : refuse("no-id");
  }

  // --- the ledger ---

  /**
   * One transaction. The latest time is kept also where the change is refused; a change is refused before it changes
   * anything.
   */
  async #transact(change) {
    const { refused, result } = await this.#ledger.update((state) => {
      const now = this.#options.now();
      if (now > state.latest) state.latest = now;
      try {
        return { result: change(state) };
      } catch (error) {
        if (error instanceof Refused) return { refused: error };
        throw error;
      }
    });
    if (refused) throw refused;
    return result;
  }

  /** A transaction that knows the device's place among the groups: a number out of 2^256, from the ledger's secret. */
  async #withPlace(change) {
    for (;;) {
      const { secret, number } = this.#place;
      const outcome = await this.#transact((state) =>
        state.secret === secret ? { result: change(state, number) } : { unknown: state.secret },
      );
      if (!outcome.unknown) return outcome.result;
      const { id, number: round } = this.#round;
      const drawn = await hmac(fromHex(outcome.unknown), `place ${id}`);
      const nonce = await nonceOf(outcome.unknown, id, round);
      this.#place = { secret: outcome.unknown, number: BigInt(`0x${toHex(drawn)}`), nonce };
    }
  }

  #status(state) {
    const { campaignCap, lifetimeCap, environment } = this.#options;
    const { id, campaign } = this.#round;
    const { sent, refused, dropped } = routeOf(state, id);
    const spentInAll = toFloat(unitsSpent(state));
    return {
      consent: asksNotToTrack(environment) ? "do not track" : state.consent,
      spent: toFloat(unitsSpent(state, id)),
      promised: campaign.epsilon,
      spentInAll,
      worstCase: Math.max(spentInAll, lifetimeCap),
      campaignCap,
      lifetimeCap,
      answers: answersIn(state, id),
      queued: state.queue.filter((item) => item.campaign === id).length,
      sent,
      refused,
      dropped,
    };
  }

  // --- sending ---

  async #upload(ends, tally) {
    const { url, token, fetch } = this.#options;
    if (url === undefined) refuse("no-collector");
    for (;;) {
      const part = await this.#transact((state) => this.#nextBatch(state));
      if (!part.length) return;
      if (performance.now() >= ends) refuse("waiting");
      const outcome = await sendReports({ url, campaign: this.#round.id, token, fetch, ends }, part.map(fromHex));
      await this.#transact((state) => this.#settle(state, part, outcome));
      if (!outcome.statuses) refuse(outcome.code);
      const refused = refusedOf(outcome.statuses);
      tally.sent += part.length - refused.length;
      tally.refused.push(...refused);
    }
  }

  #nextBatch(state) {
    this.#requireConsent(state, true);
    const { batch, now } = this.#options;
    const waiting = state.queue.filter((item) => item.campaign === this.#round.id);
    const wait = routeOf(state, this.#round.id).notBefore - now();
    // Nobody is made to wait longer than a day: the clock was set back since.
    if (waiting.length && 0 < wait && wait <= LONGEST_ASKED) refuse("waiting");
    return waiting.slice(0, batch).map((item) => item.report);
  }

  #settle(state, part, { statuses, after }) {
    const route = routeOf(state, this.#round.id);
    if (!statuses) {
      route.failures++;
      route.notBefore = this.#options.now() + this.#backOff(route.failures, after);
      return;
    }
    const settledReports = new Set(part);
    state.queue = state.queue.filter((item) => !settledReports.has(item.report));
    const refused = refusedOf(statuses).length;
    Object.assign(route, {
      failures: 0,
      notBefore: 0,
      sent: route.sent + part.length - refused,
      refused: route.refused + refused,
    });
  }

  /** Longer after every failure, with jitter; or as long as the collector asks, up to a day. */
  #backOff(failures, after) {
    const { firstWait, longestWait, now } = this.#options;
    const ceiling = Math.min(longestWait, firstWait * 2 ** Math.min(failures - 1, 30));
    const jitter = new DataView(randomBytes(4).buffer).getUint32(0) / 2 ** 32;
    return waitAsked(after, now(), LONGEST_ASKED) ?? ceiling * (0.5 + jitter / 2);
  }
}
