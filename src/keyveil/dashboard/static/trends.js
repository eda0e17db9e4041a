/**
 * A series as the pages read it: the columns that the collector sent, and what they say in words.
 *
 * No number is made here: frequencies, means, changes and their intervals are the collector's (Python:
 * `dashboard.trend.Trend`).
 */

import { get } from "./api.js";
import { shown } from "./dom.js";
import { count, dateOf, dayOf, digitsFor, percent, value } from "./format.js";

// Changes that a sentence names before it counts the rest.
const MOST_NAMED = 5;
// Keys whose intervals say how many digits are worth reading.
const MOST_READ = 10;

/** Why a wave says nothing. */
export const WHY = { down: "the collector was away", paused: "paused", before: "before the series", ended: "ended" };

/** How many waves begin in a year, at most. */
const IN_A_YEAR = { day: 366, week: 53, month: 12 };

export class Trend {
  /** @param {Record<string, any>} said the collector's answer (Python: `TrendView`) */
  constructor(said) {
    this.id = said.id;
    this.name = said.name;
    this.state = said.state;
    this.every = said.every;
    this.n_waves = said.n_waves;
    this.may_annotate = said.may_annotate;
    this.annotations = said.annotations;
    /** Null while nobody has answered; the rest is then empty. */
    this.found = said.found;
    const found = said.found ?? { places: [], keys: [], names: [], columns: {}, metadata: {}, numbers: [] };
    this.places = found.places;
    this.keys = found.keys;
    this.names = found.names;
    this.columns = found.columns;
    this.unit = found.metadata.unit ?? "";
    const lines = new Map(said.waves.map((wave) => [wave.number, wave]));
    /** The waves of the columns, in order. */
    this.waves = found.numbers.map((number) => lines.get(number));
    /** @type {Map<number, number>} */
    this.at = new Map(found.numbers.map((number, at) => [number, at]));
    this.last = said.waves.findLast(({ reports }) => reports > 0);
  }

  /**
   * @param {string} id
   * @param {{ signal?: AbortSignal, since?: string | number, most?: number, key?: string }} [asked]
   */
  static async fetch(id, { signal, ...asked } = {}) {
    const query = new URLSearchParams(Object.entries(asked).map(([name, each]) => [name, String(each)]));
    return new Trend(await get(`/v1/series/${id}/trend?${query}`, { signal }));
  }

  /** Where a wave stands in the columns. */
  placeOf(number) {
    const place = this.at.get(number);
    if (place === undefined) throw new Error(`the series has no wave ${number} yet`);
    return place;
  }

  get hasMeans() {
    return this.columns.mean_smoothed.some((row) => row.some((mean) => mean !== null));
  }

  /** Waves that somebody answered. */
  get heard() {
    return this.waves.filter(({ reports }) => reports > 0);
  }

  /** A wave as it is called: W9 (24 Jul). */
  called(number) {
    const wave = this.waves[this.placeOf(number)];
    return `W${number} (${dayOf(wave.begins)})`;
  }

  /** Digits behind the point of percent, or of a mean, so that the shortest interval of a top key shows two. */
  digitsOf(name) {
    const last = this.placeOf(this.last.number);
    const [low, high] = [this.columns[`${name}_smoothed_low`], this.columns[`${name}_smoothed_high`]];
    const widths = this.top
      .slice(0, MOST_READ)
      .map((key) => high[key][last] - low[key][last])
      .filter((width) => width > 0);
    const width = Math.min(...widths);
    return Number.isFinite(width) ? digitsFor((name === "mean" ? width : 100 * width) / 2) : 1;
  }

  /** A number of a column as it is read. */
  read(name, number, digits = this.digitsOf(name)) {
    return name === "mean" ? value(number, digits) : percent(number, digits);
  }

  /** Keys by their latest smoothed frequency. */
  get top() {
    const last = this.placeOf(this.last.number);
    const level = this.columns.frequency_smoothed.map((row) => row[last] ?? -Infinity);
    return [...level.keys()].sort((a, b) => level[b] - level[a]);
  }

  /** Keys by what changed: the sure ones first and the largest of them, then the largest beside their interval. */
  get byChange() {
    const { since } = this.found;
    if (!since) return this.top;
    const weight = (key) => {
      const size = Math.abs(since.smoothed[key] ?? 0);
      return since.is_sure[key] ? 1e6 + size : size / (since.smoothed_high[key] - since.smoothed_low[key] || 1);
    };
    return [...this.keys.keys()].sort((a, b) => weight(b) - weight(a));
  }

  stepsOf(key) {
    return this.found.steps.filter((step) => step.key === key);
  }

  /** When a step was, in words. */
  dated({ after, earliest, latest }) {
    const [from, to] = [`W${earliest}`, `W${latest + 1}`];
    return earliest === latest
      ? `step between ${from} and ${to}`
      : `step between ${from} and ${to}, likeliest after W${after}`;
  }

  /** What one key did since the wave that is compared with. */
  didOf(key) {
    const { since } = this.found;
    const digits = this.digitsOf("frequency");
    const [was, is] = [since.start, since.end].map(
      (number) => this.columns.frequency_smoothed[key][this.placeOf(number)],
    );
    const steps = this.stepsOf(key).filter((step) => step.latest >= since.start);
    const isUp = since.smoothed[key] > 0;
    // A step whose interval leaves out zero says which way, where the ends of the line alone do not.
    const isPlain =
      since.smoothed_low[key] > 0 ||
      since.smoothed_high[key] < 0 ||
      (steps.length > 0 && steps.every((step) => (isUp ? step.low > 0 : step.high < 0)));
    const verb = isUp ? "rose" : "fell";
    const moved = isPlain
      ? `${verb} from ${(100 * was).toFixed(digits)} to ${percent(is, digits)} of people`
      : `did not stay at one level, and is at ${percent(is, digits)} of people now`;
    return [moved, ...steps.map((step) => this.dated(step))].join(", ");
  }

  /** The keys that surely changed since, the largest change first. */
  get sure() {
    return this.byChange.filter((key) => this.found.since?.is_sure[key]);
  }

  /** What changed, as sentences with the names of keys apart: [name, words]. */
  get answer() {
    const { since } = this.found;
    if (!since) return { head: "", named: [], rest: "One wave alone cannot tell what changed." };
    const sure = this.sure;
    // Some keys alone may have been asked for; how many changed is said of all.
    const more = since.n_sure - Math.min(MOST_NAMED, sure.length);
    const rest = {
      none: "nothing surely changed.",
      all: "Nothing else surely changed.",
      more: `${count(more)} ${sure.length ? "more" : "other"} ${more === 1 ? "key" : "keys"} surely changed.`,
    }[since.n_sure === 0 ? "none" : more > 0 ? "more" : "all"];
    return {
      head: `Since ${this.called(since.start)}`,
      named: sure.slice(0, MOST_NAMED).map((key) => [this.names[key], this.didOf(key)]),
      rest,
    };
  }

  /** The answer as one line of text. */
  get said() {
    const { head, named, rest } = this.answer;
    const words = named.map(([name, did]) => `${shown(name)} ${did}`);
    const last = words.length ? rest.charAt(0).toLowerCase() + rest.slice(1) : rest;
    return head ? `${head}: ${[...words, last].join("; ")}` : rest;
  }

  /** How often that would be wrong. */
  get alarms() {
    const rate = Math.round(100 * this.found.metadata.false_alarms);
    return (
      `If no key ever changed, one would be named here in at most ${rate} of 100 series: judged over all ` +
      `${count(this.found.n_keys)} keys, and over all waves that may be compared.`
    );
  }

  /** The rows of one key's line; waves that nobody answered break it. */
  lineOf(name, key) {
    let stretch = 0;
    const rows = [];
    const scale = name === "mean" ? 1 : 100;
    const cell = (column, at) => {
      const number = this.columns[column][key][at];
      return number === null ? null : scale * number;
    };
    this.waves.forEach((wave, at) => {
      const middle = cell(`${name}_smoothed`, at);
      if (!wave.reports || middle === null) {
        stretch += 1;
        return;
      }
      rows.push({
        key,
        wave,
        stretch: `${key}/${stretch}`,
        when: new Date(1000 * wave.begins),
        middle,
        low: cell(`${name}_smoothed_low`, at),
        high: cell(`${name}_smoothed_high`, at),
        raw: cell(name, at),
        rawLow: cell(`${name}_low`, at),
        rawHigh: cell(`${name}_high`, at),
      });
    });
    return rows;
  }

  /** A wave in a sentence. */
  about(wave) {
    const dates = `W${wave.number}, from ${dateOf(wave.begins)}`;
    if (wave.reports) {
      return `${dates}: ${count(wave.reports)} reports${wave.state === "open" ? " so far" : ""}`;
    }
    return `${dates}: ${wave.campaign ? "nobody has reported" : `missed, ${WHY[wave.why] ?? wave.why}`}`;
  }
}

/**
 * Answers of one device in any year, at most. Its panel is even: of n waves in a row it answers n answers / waves,
 * rounded up at most.
 */
export function mostInAYear(every, waves, answers) {
  const year = Math.min(waves, IN_A_YEAR[every]);
  return Math.min(answers, Math.ceil((year * answers) / waves));
}
