/**
 * Where a device keeps its ledger. `update(change)` is one transaction: `change` gets the state, is synchronous,
 * may run more than once, and changes nothing where it throws.
 */
import { refuse, Refused } from "./codes.js";
import { freshState, readState } from "./states.js";

/** A ledger that is forgotten with its page or process: for tests. `secret` is 64 hexadecimal digits. */
export class MemoryLedger {
  #text;

  constructor({ secret } = {}) {
    this.#text = JSON.stringify(freshState(secret));
  }

  async update(change) {
    const state = readState(JSON.parse(this.#text));
    const result = change(state);
    this.#text = JSON.stringify(state);
    return result;
  }
}

/** A ledger in the browser's IndexedDB: one read-and-write transaction a change, shared by all tabs. */
export class BrowserLedger {
  #name;

  constructor(name = "keyveil") {
    this.#name = name;
  }

  async update(change) {
    const database = await this.#open();
    try {
      return await new Promise((resolve, reject) => {
        const transaction = database.transaction("ledger", "readwrite", { durability: "strict" });
        const store = transaction.objectStore("ledger");
        let result;
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

  #open() {
    return new Promise((resolve, reject) => {
      const opening = globalThis.indexedDB.open(this.#name, 1);
      opening.onupgradeneeded = () => opening.result.createObjectStore("ledger");
      opening.onsuccess = () => resolve(opening.result);
      opening.onerror = () => reject(new Refused("ledger-corrupt"));
    });
  }
}

/** The browser's ledger where there is one; Node is told where its file is. */
export function ownLedger() {
  return globalThis.indexedDB ? new BrowserLedger() : refuse("no-ledger");
}
