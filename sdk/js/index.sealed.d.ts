/** Sealing, for campaigns whose reports go through a relay. */
import type { Seal } from "./index.js";

/** What a device's options name beside the relay's address: `relay: { url, seal }`. */
export const seal: Seal;

/** Whom and what a report is sealed for. */
export interface SealedTo {
  /** The collector's public key: 64 hexadecimal digits. */
  key: string;
  /** The campaign's id. */
  campaign: string;
  round: number;
}

/**
 * A report as only the collector with this key reads it (HPKE, RFC 9180), other bytes each time: for simulations and
 * tests, for a device seals by itself. Throws `Refused` (`no-sealing`) where Web Crypto has no X25519.
 */
export function sealReport(report: Uint8Array, to: SealedTo): Promise<Uint8Array>;
