/** A second implementation of HPKE's opening, by Node's own primitives: it shares no code with what seals. */
import * as nodes from "node:crypto";
import { toHex } from "../../keyveil.js";

const PKCS8 = "302e020100300506032b656e04220420";
const SPKI = "302a300506032b656e032100";

const secretOf = (privateHex) =>
  nodes.createPrivateKey({ key: Buffer.from(PKCS8 + privateHex, "hex"), format: "der", type: "pkcs8" });

/** A key pair of Web Crypto's with these private bytes. */
export async function pairOf(privateHex) {
  const { x } = nodes.createPublicKey(secretOf(privateHex)).export({ format: "jwk" });
  const { subtle } = nodes.webcrypto;
  return {
    privateKey: await subtle.importKey("pkcs8", Buffer.from(PKCS8 + privateHex, "hex"), "X25519", false, [
      "deriveBits",
    ]),
    publicKey: await subtle.importKey("raw", Buffer.from(x, "base64url"), "X25519", true, []),
  };
}

const hash = (key, ...parts) => nodes.createHmac("sha256", key).update(Buffer.concat(parts)).digest();
const labeled = (suite, label, ...parts) => [Buffer.from("HPKE-v1"), suite, Buffer.from(label), ...parts];
const KEM = Buffer.from("4b454d0020", "hex");
const SUITE = Buffer.from("48504b45002000010001", "hex");

/** One block of LabeledExpand. */
const expanded = (secret, suite, label, info, length) =>
  hash(secret, Buffer.from([0, length]), ...labeled(suite, label, info), Buffer.from([1])).subarray(0, length);

/** What was sealed to a private key; throws where it was not. */
export function opened(body, { privateHex, info, aad = Buffer.alloc(0) }) {
  const enc = Buffer.from(body.subarray(0, 32));
  const privateKey = secretOf(privateHex);
  const publicKey = nodes.createPublicKey({
    key: Buffer.concat([Buffer.from(SPKI, "hex"), enc]),
    format: "der",
    type: "spki",
  });
  const own = Buffer.from(nodes.createPublicKey(privateKey).export({ format: "jwk" }).x, "base64url");
  const agreed = nodes.diffieHellman({ privateKey, publicKey });
  const shared = expanded(
    hash("", ...labeled(KEM, "eae_prk", agreed)),
    KEM,
    "shared_secret",
    Buffer.concat([enc, own]),
    32,
  );
  const context = Buffer.concat([
    Buffer.from([0]),
    hash("", ...labeled(SUITE, "psk_id_hash")),
    hash("", ...labeled(SUITE, "info_hash", info)),
  ]);
  const secret = hash(shared, ...labeled(SUITE, "secret"));
  const key = expanded(secret, SUITE, "key", context, 16);
  const nonce = expanded(secret, SUITE, "base_nonce", context, 12);
  const decipher = nodes.createDecipheriv("aes-128-gcm", key, nonce).setAAD(aad);
  decipher.setAuthTag(body.subarray(-16));
  const report = Buffer.concat([decipher.update(body.subarray(32, -16)), decipher.final()]);
  return { report, shared, key, nonce };
}

/** What a private key's public one is called. */
export function keyIdOf(privateHex) {
  const { x } = nodes.createPublicKey(secretOf(privateHex)).export({ format: "jwk" });
  return nodes.createHash("sha256").update(Buffer.from(x, "base64url")).digest("hex").slice(0, 16);
}

/** The report inside, or the code with which Python refuses it. */
export function openedReport(sealed, { privateHex, campaign, round }) {
  if (sealed.length <= 59) return "wrong-length";
  if (sealed[0] !== 1) return "unknown-version";
  const number = Buffer.alloc(2);
  number.writeUInt16LE(round);
  if (toHex(sealed.subarray(1, 11)) !== keyIdOf(privateHex) + toHex(number)) return "not-sealed";
  const info = Buffer.concat([Buffer.from("keyveil sealed report 1"), Buffer.from(campaign, "hex"), number]);
  try {
    return toHex(opened(sealed.subarray(11), { privateHex, info }).report);
  } catch {
    return "not-sealed";
  }
}

/** A new private key, and its public one, in hexadecimal digits. */
export function freshKey() {
  const { d, x } = nodes.generateKeyPairSync("x25519").privateKey.export({ format: "jwk" });
  return { private: Buffer.from(d, "base64url").toString("hex"), public: Buffer.from(x, "base64url").toString("hex") };
}
