/** Sealing, for campaigns whose reports go through a relay: `relay: { url, seal }`. A plain device loads none of it. */
import { sealReport } from "./src/sealing/sealed.js";

/** @import { SealedTo } from "./index.d.ts" */

/**
 * The report as only the collector with this key reads it. Needs X25519 in Web Crypto, or is refused ("no-sealing").
 *
 * @param {Uint8Array} report
 * @param {SealedTo} to
 */
export const seal = (report, to) => sealReport(report, to);
