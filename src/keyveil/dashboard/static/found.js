/**
 * A release as the pages read it: the columns that the collector sent, and what follows from them.
 *
 * No number is made here that an export does not have, but intervals of frequencies, by the release's own
 * formula in the same floating point: raw - z se and raw + z se.
 */

import { get } from "./api.js";

// Times the largest share: a band that reaches further is cut, for it would rule the scale.
const TALLEST = 2.5;

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

  /** A key's "mean" or "median" as it is shown: outside of the range, where nothing is known, it is not worth it. */
  shownOf(name, code) {
    const number = this.columns[name][code];
    const isInside = number >= this.value_range[0] && number <= this.value_range[1];
    return isInside || this.isTold(name, code) ? number : null;
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
   * Runs of keys, as [first rank, last rank], of which no two can be distinguished; from the top, without overlap.
   * Keys within noise are left to say that of themselves.
   */
  ties(most = 60) {
    const runs = [];
    for (let place = 0; place < Math.min(most, this.n);) {
      const code = this.order[place];
      if (this.isNoise(code)) break;
      let end = place;
      while (end + 1 < this.n && end + 2 <= this.rank_worst[code] && !this.isNoise(this.order[end + 1])) end++;
      if (end > place) runs.push([place + 1, end + 1]);
      place = end + 1;
    }
    return runs;
  }
}
