/**
 * keyveil for devices: browsers, workers and bundlers; Node has `node.js`, which adds a ledger in a folder.
 *
 * The truth never leaves the device: a record goes in, one noised report of fixed length comes out, once a round.
 * What is drawn, what it costs, and how it becomes bytes is the same as in Python (tests/vectors). Read src/ from
 * the top; each line imports only from lines below it (layers.js, held by the linter):
 *
 *     client        device: verbs; vote: one answer, once; upload: sending; route: which way; transport: with deadlines
 *     descriptions  what is asked, read strictly
 *     ledgers       what was spent: states, kept in memory, a browser or a folder
 *     mechanisms    named: ids and parameters; calibrations: -> integers; kernels, oracles: -> loss and answers
 *     report        the wire
 *     records       what a user holds; reading: what of it was not taken as it was
 *     numerics      exact numbers, words, bytes
 *     refusals      codes and sentences
 *
 * What seals for relays is `sealed.js`, which a plain device does not load: client/relayed, client/keys, sealing.
 */

export { asksNotToTrack } from "./src/client/consent.js";
export { Device } from "./src/client/device.js";
export { issuedIds } from "./src/client/transport.js";
export { readDescription } from "./src/descriptions/round.js";
export { BrowserLedger } from "./src/ledgers/browser.js";
export { MemoryLedger } from "./src/ledgers/memory.js";
export { mechanismOf } from "./src/mechanisms/named.js";
export { bucketOf } from "./src/mechanisms/oracles.js";
export { fromHex, randomBytes, toHex } from "./src/numerics/bytes.js";
export { expBelow, logAbove, Ratio } from "./src/numerics/exact.js";
export { levelOf, readRecord } from "./src/records.js";
export { Reading } from "./src/reading.js";
export { Refused, SENTENCES } from "./src/refusals.js";
export { checkReport, makeReport, publicWord, readFrames, readReport } from "./src/report/reports.js";
export { reportFromJson, reportToJson, toFrames } from "./src/report/reports.js";
