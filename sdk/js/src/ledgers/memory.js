/**
 * A ledger is where a device keeps what was spent. `update(change)` is one transaction: `change` gets the state, is
 * synchronous, may run more than once, and changes nothing where it throws.
 */
import { freshState, readState } from "./states.js";

/** @import { Ledger, LedgerState } from "../../index.d.ts" */

/**
 * A ledger that is forgotten with its page or process: for tests. `secret` is 64 hexadecimal digits.
 *
 * @implements {Ledger}
 */
export class MemoryLedger {
  #text;

  /** @param {{ secret?: string }} [options] */
  constructor({ secret } = {}) {
    this.#text = JSON.stringify(freshState(secret));
  }

  /**
   * @template T
   * @param {(state: LedgerState) => T} change
   */
  async update(change) {
    const state = readState(JSON.parse(this.#text));
    const result = change(state);
    this.#text = JSON.stringify(state);
    return result;
  }
}
