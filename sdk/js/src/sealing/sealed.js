/**
 * Sealed reports: what a relay carries and cannot read. The bytes are those of Python's `keyveil.sealing`:
 *
 *     offset  bytes  what
 *     0       1      version, now 1
 *     1       8      the key's id: the first bytes of its SHA-256
 *     9       2      round, little endian
 *     11      32     the encapsulated key
 *     43      ...    the report, encrypted, and 16 bytes that prove it whole
 *
 * The campaign and the round are HPKE's `info`, so what was sealed for one round opens for no other.
 */
import { concat, fromHex, sha256, toUtf8 } from "../numerics/bytes.js";
import { sealBase } from "./hpke.js";

/** @import { SealedTo } from "../../index.sealed.d.ts" */

const VERSION = 1;
const KEY_ID_BYTES = 8;
const PURPOSE = toUtf8("keyveil sealed report 1");

/**
 * The report as only the collector with this key reads it; other bytes each time, so whoever sends it keeps them.
 *
 * @param {Uint8Array} report
 * @param {SealedTo} to
 * @param {CryptoKeyPair} [ephemeral] of vectors
 */
export async function sealReport(report, { key, campaign, round }, ephemeral) {
  const recipient = fromHex(key);
  const number = new Uint8Array(2);
  new DataView(number.buffer).setUint16(0, round, true);
  const id = (await sha256(recipient)).slice(0, KEY_ID_BYTES);
  const info = concat([PURPOSE, fromHex(campaign), number]);
  const body = await sealBase({ key: recipient, info }, report, ephemeral);
  return concat([Uint8Array.of(VERSION), id, number, body]);
}
