/**
 * What a device could not take as it was, when it read a record; for the application on this device alone.
 *
 * A record is settled by rule and never refused (`records.js`), so a misspelt key or a range that is too narrow would
 * stay unseen for ever. It is made from the record, so it is as private as that: it travels in no report, is kept
 * nowhere, and neither JSON nor a console shows what it holds.
 */
import { entriesOf } from "./records.js";

/** @import { Campaign, Held } from "../index.d.ts" */

export class Reading {
  #range;
  #outside;
  #unknown;
  #notNumbers;
  #clamped;

  /**
   * @param {Pick<Campaign, "codes" | "text" | "other" | "valueRange" | "beyond">} campaign
   * @param {Held} held a record that could be read
   */
  constructor({ codes, text, other, valueRange, beyond }, held) {
    const [low, high] = (this.#range = valueRange);
    this.#outside = beyond ? "beyond" : "moved into";
    const pairs = /** @type {[string, number][]} */ ([...entriesOf(held)]);
    const asked = pairs.filter(([name]) => text || other || codes.has(name));
    this.#unknown = namesOf(pairs.filter(([name]) => !text && !codes.has(name)));
    this.#notNumbers = namesOf(asked.filter(([, value]) => Number.isNaN(value)));
    this.#clamped = namesOf(asked.filter(([, value]) => value < low || value > high));
  }

  /** Keys that the campaign does not name: left out, or averaged into `other` where it has that. */
  get unknown() {
    return this.#unknown;
  }

  /** Keys whose value was NaN: left out. */
  get notNumbers() {
    return this.#notNumbers;
  }

  /** Keys whose value was outside the campaign's range: it went to the nearer end. */
  get clamped() {
    return this.#clamped;
  }

  /** The same in words, for this device's screen; nothing where all was taken as it was. */
  words() {
    const [low, high] = this.#range.map((end) => Number(end.toPrecision(6)));
    return Object.entries({
      "not asked about": this.#unknown,
      "no number": this.#notNumbers,
      [`${this.#outside} [${low}, ${high}]`]: this.#clamped,
    })
      .filter(([, names]) => names.length)
      .map(([what, names]) => `${what}: ${names.join(", ")}`)
      .join("; ");
  }

  toJSON() {
    return "<private reading>";
  }
}

/** @param {[string, number][]} pairs */
const namesOf = (pairs) => Object.freeze(pairs.map(([name]) => name));
