/**
 * A release as the pages read it: the columns that the collector sent, and what follows from them.
 *
 * No number is made here that an export does not have, but intervals of frequencies, by the release's own
 * formula in the same floating point: raw - z se and raw + z se.
 */

import { get } from "./api.js";
import { zOfAll } from "./format.js";

// Times the largest share: a band that reaches further is cut, for it would rule the scale.
const TALLEST = 2.5;
// Two keys that only a hundred times as many reports could tell apart look alike.
const MOST_TIMES = 10;

/**
 * @typedef {object} Results what the collector answers (Python: `dashboard.results.Results`)
 * @property {Record<string, any>} metadata
 * @property {boolean} is_open
 * @property {[number, number]} value_range
 * @property {number} z
 * @property {number} z_all
 * @property {Record<string, any[]>} columns
 * @property {number[]} rank_best
 * @property {number[]} rank_worst
 * @property {Record<string, (number | null)[]>} hostile how far liars can move each key, down and up
 * @property {Record<number, Shares>} distribution by the places of the most frequent keys
 */

/**
 * @typedef {object} Shares one key's shares of values, by `metadata.bins`, and their band where there is one
 * @property {(number | null)[]} shares
 * @property {(number | null)[] | null} low
 * @property {(number | null)[] | null} high
 */

export class Found {
  /**
   * @param {Results} results
   * @param {string} id the campaign's
   * @param {string} post
   */
  constructor(results, id, post) {
    this.id = id;
    this.post = post;
    this.metadata = results.metadata;
    this.is_open = results.is_open;
    this.value_range = results.value_range;
    this.z = results.z;
    this.z_all = results.z_all;
    this.columns = results.columns;
    /** What keys are called, for people. */
    this.names = results.columns.name ?? results.columns.key;
    this.rank_best = results.rank_best;
    this.rank_worst = results.rank_worst;
    this.hostile = results.hostile;
    this.distribution = results.distribution;
    const { key, frequency, frequency_se: error } = this.columns;
    this.n = key.length;
    this.users = this.metadata.users;
    this.raw = this.columns.frequency_raw ?? frequency;
    this.low = Float64Array.from(key, (_, at) => (error[at] === null ? -Infinity : this.raw[at] - this.z * error[at]));
    this.high = Float64Array.from(key, (_, at) => (error[at] === null ? Infinity : this.raw[at] + this.z * error[at]));
    // Ranks are those of the unprocessed estimates: what post-processing does must not look like knowledge.
    this.order = Uint32Array.from(key.keys()).sort((a, b) => this.raw[b] - this.raw[a] || a - b);
    this.rank = new Uint32Array(this.n);
    this.order.forEach((code, place) => (this.rank[code] = place + 1));
  }

  static async fetch(id, post, signal) {
    return new Found(await get(`/v1/campaigns/${id}/results?post=${encodeURIComponent(post)}`, { signal }), id, post);
  }

  /** The address of a key's own page. */
  hrefOf(code) {
    return `#/c/${this.id}/keys/${code}${this.post === "none" ? "" : `?post=${encodeURIComponent(this.post)}`}`;
  }

  /** Whether a key cannot be distinguished from one that nobody holds, looking at all keys together. */
  isNoise(code) {
    const error = this.columns.frequency_se[code];
    return error === null || this.raw[code] - this.z_all * error <= 0;
  }

  /** Whether anything is known of a key's "mean" or "median": its interval is narrower than the range. */
  isTold(name, code) {
    const [low, high] = [this.columns[`${name}_low`][code], this.columns[`${name}_high`][code]];
    return this.columns[name][code] !== null && !(low <= this.value_range[0] && high >= this.value_range[1]);
  }

  /**
   * A key's "mean" or "median" as it is shown: inside its interval, at whose end stands what is estimated beyond, as in
   * an export that is made to be read; nothing where the interval is the whole range and the estimate is not in it.
   */
  shownOf(name, code) {
    const [low, number, high] = [`${name}_low`, name, `${name}_high`].map((each) => this.columns[each][code]);
    if (number === null) return null;
    const inside = Math.min(Math.max(number, low), high);
    return inside === number || this.isTold(name, code) ? inside : null;
  }

  hasMean(code) {
    return this.isTold("mean", code);
  }

  get hasMeans() {
    return this.columns.mean.some((mean) => mean !== null);
  }

  /** Whether the campaign tells how values are spread, with intervals. */
  get hasMedians() {
    return this.columns.median !== undefined;
  }

  /** Whether it cannot be excluded that a key's values are spread evenly. */
  isShapeUnknown(code) {
    return this.columns.shape?.[code] === "unknown";
  }

  /** Whether a key's shares of values were sent, and are known. */
  hasShares(code) {
    return this.metadata.bins !== undefined && (this.distribution[code]?.shares ?? []).some((share) => share !== null);
  }

  hasBand(code) {
    return (this.distribution[code]?.high ?? null) !== null;
  }

  /**
   * A key's shares by marks, with the values that each mark stands for: half way to the next marks, and no
   * further than the range goes.
   */
  sharesOf(code) {
    const { shares, low, high } = this.distribution[code];
    const marks = this.metadata.bins;
    const between = marks.slice(1).map((mark, at) => (marks[at] + mark) / 2);
    const edges = [this.value_range[0], ...between, this.value_range[1]];
    return marks.map((mark, at) => ({
      mark,
      from: edges[at],
      to: edges[at + 1],
      share: shares[at],
      low: low?.[at] ?? null,
      high: high?.[at] ?? null,
    }));
  }

  /** How high a figure of these keys' shares reaches. Keys within noise do not count beside others. */
  reachOf(codes) {
    const clear = codes.filter((code) => !this.isNoise(code));
    const rows = (clear.length ? clear : codes).flatMap((code) => this.sharesOf(code));
    const most = Math.max(...rows.map(({ share }) => share ?? 0)) || 1;
    return Math.min(TALLEST * most, Math.max(most, ...rows.map(({ high }) => high ?? 0)));
  }

  /** Whether it is known how far lying devices could move a frequency; the release says it of 1 % of them. */
  get hasHostile() {
    return this.columns.frequency_hostile !== undefined;
  }

  /**
   * What is known of the `k` most frequent keys, as codes from the top: which surely belong to them, which may, and
   * how many more reports would settle it; null where nothing is left open, infinite where two look alike.
   *
   * Ranks hold for all keys at once, so this does, too. Settled means that every key of the first k is told apart from
   * every other, if they are as far from each other as they look now; standard errors shrink with the root of reports.
   *
   * @param {number} k
   */
  topOf(k) {
    const codes = [...this.order];
    const surely = codes.filter((code) => this.rank_worst[code] <= k);
    const possibly = codes.filter((code) => this.rank_best[code] <= k && this.rank_worst[code] > k);
    if (!possibly.length) return { surely, possibly, more: null };
    const error = this.columns.frequency_se;
    const z = zOfAll((this.n * (this.n - 1)) / 2);
    let times = 1;
    for (const inside of codes.slice(0, k).filter((code) => this.rank_worst[code] > k)) {
      for (const outside of possibly) {
        if (this.rank[outside] <= k) continue;
        // However the two vary together, their difference errs no more than both.
        const needed = (z * (error[inside] + error[outside])) / (this.raw[inside] - this.raw[outside]);
        times = Math.max(times, needed);
      }
    }
    const more = times > MOST_TIMES ? Infinity : Math.max(1, this.users * (times ** 2 - 1));
    return { surely, possibly, more };
  }
}
