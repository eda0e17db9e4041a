/**
 * Sealing, for campaigns whose reports go through a relay: `relay: { url, seal }` among a device's options. A plain
 * device loads none of it.
 */
import { RelayRoute } from "./src/client/relayed.js";
import * as sealing from "./src/sealing/sealed.js";

/**
 * @import { Round } from "./index.d.ts"
 * @import { SealedTo } from "./index.sealed.d.ts"
 * @import { Relaying } from "./src/client/relayed.js"
 */

/**
 * The way of a device's reports through its relay.
 *
 * @param {Round} round
 * @param {Relaying} options
 */
export const seal = (round, options) => new RelayRoute(round, options);

/**
 * A report as only the collector with a key reads it. Needs X25519 in Web Crypto, or is refused ("no-sealing").
 *
 * @param {Uint8Array} report
 * @param {SealedTo} to
 */
export const sealReport = (report, to) => sealing.sealReport(report, to);
