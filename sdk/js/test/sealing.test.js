/** Sealed reports: the RFC's own numbers, Python's vectors, and an opener by Node's that shares no code with them. */
import assert from "node:assert/strict";
import * as nodes from "node:crypto";
import { test } from "node:test";
import { fromHex, toHex } from "../keyveil.js";
import { seal } from "../sealed.js";
import { sealBase } from "../src/sealing/hpke.js";
import { sealReport } from "../src/sealing/sealed.js";
import { load } from "./support/vectors.js";

const { rfc9180, sealed: vectors, refused } = load("sealed.json");
const PKCS8 = "302e020100300506032b656e04220420";
const SPKI = "302a300506032b656e032100";

const secretOf = (privateHex) =>
  nodes.createPrivateKey({ key: Buffer.from(PKCS8 + privateHex, "hex"), format: "der", type: "pkcs8" });

/** A key pair of Web Crypto's with these private bytes. */
async function pairOf(privateHex) {
  const { x } = nodes.createPublicKey(secretOf(privateHex)).export({ format: "jwk" });
  const { subtle } = nodes.webcrypto;
  return {
    privateKey: await subtle.importKey("pkcs8", fromHex(PKCS8 + privateHex), "X25519", false, ["deriveBits"]),
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
function opened(body, { privateHex, info, aad = Buffer.alloc(0) }) {
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

/** The report inside, or the code with which Python refuses it. */
function openedReport(sealed, { privateHex, campaign, round }) {
  if (sealed.length <= 59) return "wrong-length";
  if (sealed[0] !== 1) return "unknown-version";
  const own = nodes.createPublicKey(secretOf(privateHex)).export({ format: "jwk" }).x;
  const id = nodes.createHash("sha256").update(Buffer.from(own, "base64url")).digest("hex").slice(0, 16);
  const number = Buffer.alloc(2);
  number.writeUInt16LE(round);
  if (toHex(sealed.subarray(1, 11)) !== id + toHex(number)) return "not-sealed";
  const info = Buffer.concat([Buffer.from("keyveil sealed report 1"), Buffer.from(campaign, "hex"), number]);
  try {
    return toHex(opened(sealed.subarray(11), { privateHex, info }).report);
  } catch {
    return "not-sealed";
  }
}

test("RFC 9180, A.1.1: the same ciphertext, and the opener has every number on the way to it", async () => {
  const { info, aad, pt, ct, enc, skEm, skRm, pkRm, shared_secret, key, base_nonce } = rfc9180;
  const recipient = { key: fromHex(pkRm), info: fromHex(info), aad: fromHex(aad) };
  const made = await sealBase(recipient, fromHex(pt), await pairOf(skEm));
  assert.equal(toHex(made), enc + ct);
  const found = opened(made, { privateHex: skRm, info: fromHex(info), aad: fromHex(aad) });
  assert.deepEqual([found.report, found.shared, found.key, found.nonce].map(toHex), [
    pt,
    shared_secret,
    key,
    base_nonce,
  ]);
});

test("sealed as Python seals, byte for byte, where the ephemeral key is the same", async () => {
  assert.ok(vectors.length >= 10);
  for (const { public: key, campaign, round, ephemeral, report, sealed, private: privateHex } of vectors) {
    const made = await sealReport(fromHex(report), { key, campaign, round }, await pairOf(ephemeral));
    assert.equal(toHex(made), sealed);
    assert.equal(openedReport(made, { privateHex, campaign, round }), report);
  }
});

test("the opener of these tests refuses what Python refuses", () => {
  assert.ok(refused.length >= 10);
  for (const { why, sealed, campaign, round, private: privateHex, code } of refused) {
    assert.equal(openedReport(fromHex(sealed), { privateHex, campaign, round }), code, why);
  }
});

test("every seal has a key of its own, so the same report is never the same bytes", async () => {
  const { public: key, private: privateHex, campaign, round, report } = vectors[1];
  const made = [];
  for (let time = 0; time < 20; time++) made.push(await seal(fromHex(report), { key, campaign, round }));
  assert.equal(new Set(made.map((one) => toHex(one.subarray(11, 43)))).size, 20);
  assert.equal(new Set(made.map((one) => one.length)).size, 1);
  assert.equal(made[0].length, report.length / 2 + 59);
  for (const one of made) assert.equal(openedReport(one, { privateHex, campaign, round }), report);
});

test("a key with which everybody agrees on zeros seals nothing", async () => {
  const { campaign, round } = vectors[0];
  for (const key of ["00".repeat(32), `01${"00".repeat(31)}`]) {
    await assert.rejects(seal(new Uint8Array(3), { key, campaign, round }));
  }
});

test("without X25519 it is refused, and nothing else is", async (context) => {
  const { public: key, campaign, round } = vectors[0];
  context.mock.method(nodes.webcrypto.subtle, "generateKey", async () => {
    throw new DOMException("Unrecognized algorithm name", "NotSupportedError");
  });
  await assert.rejects(seal(new Uint8Array(3), { key, campaign, round }), { code: "no-sealing" });
});
