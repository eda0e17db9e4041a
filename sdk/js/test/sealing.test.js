/** Sealed reports: the RFC's own numbers, Python's vectors, and an opener that shares no code with the sealer. */
import assert from "node:assert/strict";
import { webcrypto } from "node:crypto";
import { test } from "node:test";
import { fromHex, toHex } from "../keyveil.js";
import { sealReport as seal } from "../sealed.js";
import { sealBase } from "../src/sealing/hpke.js";
import { sealReport } from "../src/sealing/sealed.js";
import { opened, openedReport, pairOf } from "./support/opening.js";
import { load } from "./support/vectors.js";

const { rfc9180, sealed: vectors, refused } = load("sealed.json");

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
    await assert.rejects(seal(new Uint8Array(3), { key, campaign, round }), { name: "OperationError" });
  }
});

test("without X25519, or with a part of it, it is refused", async (context) => {
  const { public: key, campaign, round } = vectors[0];
  for (const step of ["generateKey", "exportKey", "importKey", "deriveBits"]) {
    const mocked = context.mock.method(webcrypto.subtle, step, async () => {
      throw new DOMException("Unrecognized algorithm name", "NotSupportedError");
    });
    await assert.rejects(seal(new Uint8Array(3), { key, campaign, round }), { code: "no-sealing" }, step);
    mocked.mock.restore();
  }
  assert.equal((await seal(new Uint8Array(3), { key, campaign, round })).length, 62);
});
