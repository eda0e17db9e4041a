/** Bytes: joined, written as hexadecimal digits, hashed, drawn. */

/** @type {Crypto | undefined} */
let webCrypto = globalThis.crypto;
// Web Crypto hands over at most so many bytes at once.
const MOST_RANDOM_BYTES = 65536;

/**
 * Node 18 keeps Web Crypto in a module, which browsers must not be asked for: `node.js` hands it over.
 *
 * @param {Crypto} found
 */
export function offerWebCrypto(found) {
  webCrypto ??= found;
}

/** @returns {Crypto} */
function cryptoHere() {
  if (!webCrypto) throw new Error("there is no Web Crypto here; in Node import node.js");
  return webCrypto;
}

/** Keys, hashes and ciphers; pages have them on https and on this machine alone. */
export const subtleHere = () => cryptoHere().subtle;

/**
 * Bytes from the operating system's generator.
 *
 * @param {number} size
 */
export function randomBytes(size) {
  const bytes = new Uint8Array(size);
  for (let at = 0; at < size; at += MOST_RANDOM_BYTES) {
    cryptoHere().getRandomValues(bytes.subarray(at, at + MOST_RANDOM_BYTES));
  }
  return bytes;
}

/**
 * SHA-256 of some bytes, one part after the other.
 *
 * @param {Uint8Array[]} parts
 */
export async function sha256(...parts) {
  return new Uint8Array(await subtleHere().digest("SHA-256", concat(parts)));
}

/**
 * HMAC-SHA256 of some bytes.
 *
 * @param {Uint8Array<ArrayBuffer>} secret
 * @param {Uint8Array<ArrayBuffer>} bytes
 */
export async function hmac(secret, bytes) {
  const subtle = subtleHere();
  const key = await subtle.importKey("raw", secret, { name: "HMAC", hash: "SHA-256" }, false, ["sign"]);
  return new Uint8Array(await subtle.sign("HMAC", key, bytes));
}

/** @param {string} text */
export const toUtf8 = (text) => new TextEncoder().encode(text);

/** @param {readonly Uint8Array[]} parts */
export function concat(parts) {
  const bytes = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
  let at = 0;
  for (const part of parts) {
    bytes.set(part, at);
    at += part.length;
  }
  return bytes;
}

/**
 * Small hexadecimal digits.
 *
 * @param {Uint8Array} bytes
 */
export function toHex(bytes) {
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/**
 * Bytes from hexadecimal digits.
 *
 * @param {string} text
 */
export function fromHex(text) {
  const digits = (/** @type {number} */ place) => text.slice(2 * place, 2 * place + 2);
  return Uint8Array.from({ length: text.length / 2 }, (_, place) => Number.parseInt(digits(place), 16));
}
