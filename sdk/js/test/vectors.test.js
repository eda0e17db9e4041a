/** The same files that Python writes and passes: integers, reports byte for byte, refusals by their codes. */
import assert from "node:assert/strict";
import { test } from "node:test";
import {
  checkReport,
  expBelow,
  fromHex,
  logAbove,
  makeReport,
  mechanismOf,
  Ratio,
  readDescription,
  readFrames,
  readRecord,
  Refused,
  reportFromJson,
  reportToJson,
  toFrames,
  toHex,
} from "../keyveil.js";
import { clearLabels, privateLabel } from "../src/descriptions/segments.js";
import { nonceOf } from "../src/client/vote.js";
import { fastest } from "./support/campaigns.js";
import { load, names } from "./support/vectors.js";

const OTHERS = ["calibration.json", "exact.json", "kernels.json", "nonces.json", "sealed.json", "series.json"];
const methods = names().filter((name) => !name.startsWith("bad_") && !OTHERS.includes(name));

const ratio = (text) => {
  const [n, d = "1"] = text.split("/");
  return new Ratio(BigInt(n), BigInt(d));
};
const isSame = (one, two) => one.n * two.d === two.n * one.d;
/** Counts of words are decimal text in vectors. */
const asText = (value) =>
  JSON.parse(JSON.stringify(value, (_, part) => (typeof part === "bigint" ? String(part) : part)));

test("exponentials and logarithms are Python's to the last bit", () => {
  const { exp, log } = load("exact.json");
  assert.ok(exp.length && log.length);
  for (const [x, wanted] of exp) {
    assert.ok(isSame(expBelow(ratio(x)), new Ratio(BigInt(wanted), 1n << 256n)), `exp ${x}`);
  }
  for (const [x, wanted] of log) assert.equal(String(logAbove(ratio(x))), wanted, `log ${x}`);
});

test("every mechanism is calibrated to Python's integers, loss and price", () => {
  for (const { n_keys, mechanism, integers, loss, units, n_words, n_bytes } of load("calibration.json").cases) {
    const made = mechanismOf(mechanism, n_keys);
    const why = JSON.stringify(mechanism).slice(0, 200);
    assert.deepEqual(asText(made.integers), integers, why);
    assert.ok(isSame(made.loss, ratio(loss)), why);
    assert.deepEqual([String(made.price), made.nWords, made.layout.nBytes], [units, n_words, n_bytes], why);
  }
});

test("a device asks for ids with Python's nonces", async () => {
  const { nonces } = load("nonces.json");
  assert.ok(nonces.length);
  for (const { secret, campaign, round, nonce } of nonces) assert.equal(await nonceOf(secret, campaign, round), nonce);
});

for (const name of methods) {
  test(`sends what ${name} says`, async () => {
    for (const { description, cases } of load(name).suites) {
      const round = await readDescription(description);
      for (const { held, record, words, report_id, answer, report, segments, labels } of cases) {
        const read = readRecord(round, held, privateLabel(round.campaign.segments, segments ?? {}));
        assert.deepEqual(
          read.map(({ code, level }) => [code, String(level)]),
          record,
        );
        const told = clearLabels(round.campaign.segments, segments ?? {});
        assert.deepEqual(told, labels ?? []);
        const made = await makeReport(round, read, fromHex(words), fromHex(report_id), told);
        assert.equal(toHex(made), report);
        assert.deepEqual(asText(await checkReport(round, made)), answer);
        assert.deepEqual(reportFromJson(reportToJson(made)), made);
      }
    }
  });
}

test("there are vectors for every shape of report", async () => {
  const suites = methods.flatMap((name) => load(name).suites);
  const rounds = await Promise.all(suites.map(({ description }) => readDescription(description)));
  assert.equal(new Set(rounds.map(({ mechanism }) => mechanism.integers.shape)).size, 10);
});

for (const name of names("hostile/")) {
  test(`opens and refuses as ${name} says, at once`, async () => {
    for (const { why, description, code, units } of load(name).cases) {
      let opened;
      const took = await fastest(async () => (opened = await readDescription(description).catch((error) => error)));
      assert.ok(took < 50, `${why}: took ${took} ms`);
      assert.equal(opened instanceof Error ? opened.code : "done", code, why);
      if (units !== undefined && code === "done") assert.equal(String(opened.price), units, why);
    }
  });
}

test("refuses bad reports by their codes", async () => {
  for (const { why, description, report, code } of load("bad_reports.json").refuse) {
    const round = await readDescription(description);
    await assert.rejects(
      checkReport(round, fromHex(report)),
      (error) => error instanceof Refused && error.code === code,
      why,
    );
  }
});

test("refuses bad batches by their codes", () => {
  for (const { why, stream, largest, most, code } of load("bad_frames.json").refuse) {
    assert.throws(
      () => readFrames(fromHex(stream), { largest, most }),
      (error) => error.code === code,
      why,
    );
  }
});

test("refuses bad texts by their codes", () => {
  for (const { why, text, code } of load("bad_json.json").refuse) {
    assert.throws(
      () => reportFromJson(text),
      (error) => error.code === code,
      why,
    );
  }
});

test("reads back the batches it writes", () => {
  const reports = [new Uint8Array([1, 2, 3]), new Uint8Array(0), new Uint8Array(300)];
  assert.deepEqual(readFrames(toFrames(reports)), reports);
});
