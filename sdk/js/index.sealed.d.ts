/** Sealing, for campaigns whose reports go through a relay: `relay: { url, seal }` of a device's options. */
import type { Seal } from "./index.js";

/**
 * The report as only the collector with this key reads it (HPKE, RFC 9180); other bytes each time. Throws `Refused`
 * (`no-sealing`) where Web Crypto has no X25519.
 */
export const seal: Seal;
