/**
 * keyveil for devices: browsers and Node 18+, no dependencies.
 *
 * The truth never leaves the device: a record goes in, one noised report of fixed length comes out, once a round.
 * What is drawn, what it costs, and how it becomes bytes is the same as in Python (tests/vectors). Read lib/ from
 * device.js down:
 *
 *     device         one vote, consent, caps, sending        transport      the collector, with deadlines
 *     descriptions   what is asked, read strictly            ledgers        what was spent (file_ledger, states)
 *     mechanisms     ids and parameters                      calibrations   parameters -> integers
 *     kernels        integers -> loss and answers            oracles        symbols and answers about one
 *     records        what a user holds                       reports        the wire (layouts)
 *     exact words bytes                                      explain codes  words for people
 */

export { randomBytes, toHex, fromHex } from "./lib/bytes.js";
export { Refused, SENTENCES } from "./lib/codes.js";
export { readDescription } from "./lib/descriptions.js";
export { asksNotToTrack, Device } from "./lib/device.js";
export { expBelow, logAbove, Ratio } from "./lib/exact.js";
export { FileLedger } from "./lib/file_ledger.js";
export { BrowserLedger, MemoryLedger } from "./lib/ledgers.js";
export { mechanismOf } from "./lib/mechanisms.js";
export { bucketOf } from "./lib/oracles.js";
export { levelOf, readRecord } from "./lib/records.js";
export {
  checkReport,
  makeReport,
  publicWord,
  readFrames,
  readReport,
  reportFromJson,
  reportToJson,
  toFrames,
} from "./lib/reports.js";
export { issuedIds } from "./lib/transport.js";
