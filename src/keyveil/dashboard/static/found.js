/**
 * A release as the pages read it: the columns that the collector sent, and what follows from them.
 *
 * No number is made here that an export does not have, but intervals of frequencies, by the release's own
 * formula in the same floating point: raw - z se and raw + z se.
 */

import { get } from "./api.js";

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
 * @property {Record<number, (number | null)[]>} distribution
 */

export class Found {
  /** @param {Results} results */
  constructor(results) {
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
    return new Found(await get(`/v1/campaigns/${id}/results?post=${encodeURIComponent(post)}`, { signal }));
  }

  /** Whether a key cannot be distinguished from one that nobody holds, looking at all keys together. */
  isNoise(code) {
    const error = this.columns.frequency_se[code];
    return error === null || this.raw[code] - this.z_all * error <= 0;
  }

  /** Whether anything is known of a key's mean: its interval is narrower than the range. */
  hasMean(code) {
    const { mean, mean_low: low, mean_high: high } = this.columns;
    return mean[code] !== null && !(low[code] <= this.value_range[0] && high[code] >= this.value_range[1]);
  }

  get hasMeans() {
    return this.columns.mean.some((mean) => mean !== null);
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
