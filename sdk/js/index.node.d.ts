/** keyveil in Node: everything, and a ledger in a folder. */
import type { Ledger, LedgerState } from "./index.js";

export * from "./index.js";

/** In a folder beside `path`: `path` + ".d". Safe between processes. */
export class FileLedger implements Ledger {
  constructor(path: string | URL);
  update<T>(change: (state: LedgerState) => T): Promise<T>;
}
