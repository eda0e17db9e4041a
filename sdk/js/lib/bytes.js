/** Bytes: joined, written as hexadecimal digits, hashed, drawn. */

// Node 18 keeps Web Crypto in a module.
const webCrypto = globalThis.crypto ?? (await import("node:crypto")).webcrypto;
// Web Crypto hands over at most so many bytes at once.
const MOST_RANDOM_BYTES = 65536;

/** Bytes from the operating system's generator. */
export function randomBytes(size) {
  const bytes = new Uint8Array(size);
  for (let at = 0; at < size; at += MOST_RANDOM_BYTES) {
    webCrypto.getRandomValues(bytes.subarray(at, at + MOST_RANDOM_BYTES));
  }
  return bytes;
}

/** SHA-256 of some bytes, one part after the other. */
export async function sha256(...parts) {
  return new Uint8Array(await webCrypto.subtle.digest("SHA-256", concat(parts)));
}

/** HMAC-SHA256 of a text. */
export async function hmac(secret, text) {
  const key = await webCrypto.subtle.importKey("raw", secret, { name: "HMAC", hash: "SHA-256" }, false, ["sign"]);
  return new Uint8Array(await webCrypto.subtle.sign("HMAC", key, toUtf8(text)));
}

export const toUtf8 = (text) => new TextEncoder().encode(text);

export function concat(parts) {
  if (parts.length === 1) return parts[0];
  const bytes = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
  let at = 0;
  for (const part of parts) {
    bytes.set(part, at);
    at += part.length;
  }
  return bytes;
}

/** Small hexadecimal digits. */
export function toHex(bytes) {
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** Bytes from hexadecimal digits. */
export function fromHex(text) {
  return Uint8Array.from({ length: text.length / 2 }, (_, place) =>
    Number.parseInt(text.slice(2 * place, 2 * place + 2), 16),
  );
}
