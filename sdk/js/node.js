/** keyveil in Node: everything that `keyveil.js` has, and a ledger in a folder. Browsers and bundlers never see it. */
import { webcrypto } from "node:crypto";
import { offerWebCrypto } from "./src/numerics/bytes.js";

// Node 18 has no `crypto` of its own accord.
offerWebCrypto(/** @type {Crypto} */ (webcrypto));

export * from "./keyveil.js";
export { FileLedger } from "./src/ledgers/file.js";
