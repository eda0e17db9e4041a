/**
 * HPKE (RFC 9180) in base mode, for one message: DHKEM(X25519, HKDF-SHA256), HKDF-SHA256 and AES-128-GCM, all of it by
 * Web Crypto. Only sealing is here: a device opens nothing.
 */
import { concat, hmac, subtleHere, toUtf8 } from "../numerics/bytes.js";
import { refuse } from "../refusals.js";

const X25519 = { name: "X25519" };
const NONE = new Uint8Array(0);
// An HMAC without a salt has zeros for one.
const NO_SALT = new Uint8Array(32);
const VERSION = toUtf8("HPKE-v1");
const KEM = concat([toUtf8("KEM"), Uint8Array.of(0, 0x20)]);
const SUITE = concat([toUtf8("HPKE"), Uint8Array.of(0, 0x20, 0, 1, 0, 1)]);
const BASE = Uint8Array.of(0);
const SECRET_BYTES = 32;
const KEY_BYTES = 16;
const NONCE_BYTES = 12;

/**
 * What a step of X25519 yields; refused where the platform does not have it, as some have but a part. A key to which
 * nothing can be sealed is another error, of Web Crypto's own.
 *
 * @template T
 * @param {Promise<T>} step
 * @returns {Promise<T>}
 */
const tried = (step) =>
  step.catch((error) => {
    if (error.name === "OperationError") throw error;
    return refuse("no-sealing");
  });

/** @returns {Promise<CryptoKeyPair>} */
const freshKeys = () =>
  tried(/** @type {Promise<CryptoKeyPair>} */ (subtleHere().generateKey(X25519, false, ["deriveBits"])));

/**
 * A message that only the holder of a key reads: the encapsulated key, and behind it what was encrypted.
 *
 * `ephemeral` is drawn for every message; vectors alone say which it is.
 *
 * @param {{ key: Uint8Array<ArrayBuffer>, info: Uint8Array, aad?: Uint8Array<ArrayBuffer> }} recipient
 * @param {Uint8Array} message
 * @param {CryptoKeyPair} [ephemeral]
 */
export async function sealBase({ key, info, aad = NONE }, message, ephemeral) {
  const subtle = subtleHere();
  const { privateKey, publicKey } = ephemeral ?? (await freshKeys());
  const enc = new Uint8Array(await tried(subtle.exportKey("raw", publicKey)));
  const recipient = await tried(subtle.importKey("raw", key, X25519, true, []));
  const agreed = new Uint8Array(await tried(subtle.deriveBits({ ...X25519, public: recipient }, privateKey, 256)));
  const shared = await derived(
    labeled(KEM, "eae_prk", agreed),
    NONE,
    expanding(KEM, "shared_secret", concat([enc, key]), SECRET_BYTES),
    SECRET_BYTES,
  );
  const context = concat([
    BASE,
    await hmac(NO_SALT, labeled(SUITE, "psk_id_hash", NONE)),
    await hmac(NO_SALT, labeled(SUITE, "info_hash", info)),
  ]);
  /** @type {(label: string, length: number) => Promise<Uint8Array<ArrayBuffer>>} */
  const schedule = (label, length) =>
    derived(labeled(SUITE, "secret", NONE), shared, expanding(SUITE, label, context, length), length);
  const aes = await subtle.importKey("raw", await schedule("key", KEY_BYTES), "AES-GCM", false, ["encrypt"]);
  const iv = await schedule("base_nonce", NONCE_BYTES);
  const encrypted = await subtle.encrypt({ name: "AES-GCM", iv, additionalData: aad }, aes, message.slice());
  return concat([enc, new Uint8Array(encrypted)]);
}

/**
 * HKDF: extract from `material` with `salt`, and expand by `info`.
 *
 * @param {Uint8Array<ArrayBuffer>} material
 * @param {Uint8Array<ArrayBuffer>} salt
 * @param {Uint8Array<ArrayBuffer>} info
 * @param {number} length
 */
async function derived(material, salt, info, length) {
  const subtle = subtleHere();
  const key = await subtle.importKey("raw", material, "HKDF", false, ["deriveBits"]);
  return new Uint8Array(await subtle.deriveBits({ name: "HKDF", hash: "SHA-256", salt, info }, key, 8 * length));
}

/**
 * What LabeledExtract extracts from.
 *
 * @param {Uint8Array} suite
 * @param {string} label
 * @param {Uint8Array} material
 */
const labeled = (suite, label, material) => concat([VERSION, suite, toUtf8(label), material]);

/**
 * What LabeledExpand expands by.
 *
 * @param {Uint8Array} suite
 * @param {string} label
 * @param {Uint8Array} info
 * @param {number} length
 */
const expanding = (suite, label, info, length) => concat([Uint8Array.of(0, length), labeled(suite, label, info)]);
