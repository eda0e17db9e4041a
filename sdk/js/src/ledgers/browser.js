/** A ledger in the browser's IndexedDB: one read-and-write transaction a change, shared by all tabs. */
import { Refused } from "../refusals.js";
import { freshState, readState } from "./states.js";

/** @import { Ledger, LedgerState } from "../../index.d.ts" */

/** Whether there is an IndexedDB here. */
export const hasIndexedDb = () => Boolean(globalThis.indexedDB);

/** @implements {Ledger} */
export class BrowserLedger {
  #name;

  constructor(name = "keyveil") {
    this.#name = name;
  }

  /**
   * @template T
   * @param {(state: LedgerState) => T} change
   * @returns {Promise<T>}
   */
  async update(change) {
    const database = await this.#open();
    try {
      return await new Promise((resolve, reject) => {
        const transaction = database.transaction("ledger", "readwrite", { durability: "strict" });
        const store = transaction.objectStore("ledger");
        /** @type {T} */
        let result;
        /** @type {unknown} */
        let failure;
        const reading = store.get("state");
        reading.onsuccess = () => {
          try {
            const state = reading.result === undefined ? freshState() : readState(reading.result);
            result = change(state);
            store.put(state, "state");
          } catch (error) {
            failure = error;
            transaction.abort();
          }
        };
        transaction.oncomplete = () => resolve(result);
        transaction.onabort = () => reject(failure ?? new Refused("ledger-unwritable"));
      });
    } finally {
      database.close();
    }
  }

  /** @returns {Promise<IDBDatabase>} */
  #open() {
    return new Promise((resolve, reject) => {
      const opening = globalThis.indexedDB.open(this.#name, 1);
      opening.onupgradeneeded = () => void opening.result.createObjectStore("ledger");
      opening.onsuccess = () => resolve(opening.result);
      opening.onerror = () => reject(new Refused("ledger-corrupt"));
    });
  }
}
