/**
 * What waits leaves with the page.
 *
 * A page that is left may wait for nothing, not even for its ledger; only a request that was begun by then and is
 * marked `keepalive` goes on without it. So what may be sent is read beforehand, while the page is seen, and held in
 * memory. It is forgotten as soon as the person says no, here or in another page, and when the page was hidden: a page
 * that nobody sees holds nothing. What was sent stays in the queue until the collector's answer was read; whoever left
 * before that sends the same bytes once more, and they count once. For a relay it is sealed beforehand too: what is not
 * sealed yet stays.
 */
import { asksNotToTrack } from "./consent.js";
import { deliver, readBatch } from "./upload.js";

/**
 * @import { Environment } from "./consent.js"
 * @import { Ready } from "./route.js"
 * @import { Sending } from "./upload.js"
 */

// Browsers let all such requests of a page together have 64 KiB.
const MOST_BYTES = 60_000;
const FRAME_BYTES = 4;
const CHANNEL = "keyveil";

export class Hiding {
  #sending;
  #options;
  /** @type {(() => void) | null} */
  #end = null;
  /** @type {Ready[]} */
  #ready = [];
  /** Counts how often all was forgotten: what was read before that is not held after it. */
  #forgotten = 0;

  /** @param {Sending} sending */
  constructor(sending) {
    this.#sending = sending;
    this.#options = sending.options;
  }

  /** Listens to the page, where there is one and nobody does yet; yields what ends it. */
  listen() {
    /** @type {Environment} */
    const { document, BroadcastChannel, addEventListener, removeEventListener } = this.#options.environment;
    if (!document) return () => {};
    if (this.#end) return this.#end;
    const [send, look] = [() => this.#send(), () => void this.#look()];
    const change = () => (this.#isHidden() ? send() : look());
    const channel = BroadcastChannel && new BroadcastChannel(CHANNEL);
    channel?.addEventListener("message", () => this.forget());
    document.addEventListener("visibilitychange", change);
    addEventListener?.("pagehide", send);
    addEventListener?.("pageshow", look);
    this.#end = () => {
      channel?.close();
      document.removeEventListener("visibilitychange", change);
      removeEventListener?.("pagehide", send);
      removeEventListener?.("pageshow", look);
      this.#end = null;
      this.forget();
    };
    look();
    return this.#end;
  }

  /**
   * What some work yields; by then whatever it left in the queue is ready to be sent, or, in a hidden page, on its way.
   *
   * @template T
   * @param {Promise<T>} work
   */
  async readyAfter(work) {
    try {
      return await work;
    } finally {
      if (this.#end) await this.#look();
    }
  }

  /** Holds nothing, nor what is being read. */
  forget() {
    this.#ready = [];
    this.#forgotten++;
  }

  async #look() {
    const before = this.#forgotten;
    const batch = await this.#read().catch(() => []);
    if (before !== this.#forgotten) return;
    this.#ready = batch.slice(0, fitting(batch));
    if (this.#isHidden()) this.#send();
  }

  async #read() {
    const batch = await readBatch(this.#sending);
    return this.#sending.route.atHand(batch, () => void (this.#end && this.#look()));
  }

  /** Nothing is waited for before the request is begun. */
  #send() {
    const part = this.#ready;
    this.#ready = [];
    if (!part.length || asksNotToTrack(this.#options.environment)) return;
    const ends = performance.now() + this.#options.timeout;
    // Whoever is still there settles; a ledger that cannot be written is found out by the next call.
    deliver(this.#sending, part, { ends, keepalive: true }).catch(() => {});
  }

  #isHidden() {
    /** @type {Environment} */
    const { document } = this.#options.environment;
    return document?.visibilityState === "hidden";
  }
}

/**
 * How many reports, from the first, go into a request that outlives the page.
 *
 * @param {Ready[]} batch
 */
function fitting(batch) {
  let bytes = 0;
  const end = batch.findIndex(({ sent }) => (bytes += FRAME_BYTES + sent.length / 2) > MOST_BYTES);
  return end < 0 ? batch.length : end;
}

/**
 * Tells all other pages that the person said no.
 *
 * @param {Environment} environment
 */
export function tellPages({ document, BroadcastChannel }) {
  if (!document || !BroadcastChannel) return;
  const channel = new BroadcastChannel(CHANNEL);
  channel.postMessage("disabled");
  channel.close();
}
