/** The same files that Python writes and passes: every report byte for byte, every refusal by its code. */
import assert from "node:assert/strict";
import { readFileSync, readdirSync } from "node:fs";
import { test } from "node:test";
import {
  Refused,
  checkReport,
  fromHex,
  makeReport,
  readConfig,
  readFrames,
  readRecord,
  reportFromJson,
  reportToJson,
  toFrames,
  toHex,
} from "../keyveil.js";

const folder = new URL("../../../tests/vectors/", import.meta.url);
const load = (name) => JSON.parse(readFileSync(new URL(name, folder), "utf8"));
const files = readdirSync(folder).filter((name) => name.endsWith(".json"));
const good = files.filter((name) => !name.startsWith("bad_"));

for (const name of good) {
  test(`sends what ${name} says`, async () => {
    for (const { config, cases } of load(name).suites) {
      const campaign = await readConfig(config);
      for (const { held, record, words, report_id, answer, report } of cases) {
        const read = readRecord(campaign, held);
        assert.deepEqual(read.map(({ code, level }) => [code, String(level)]), record);
        const made = await makeReport(campaign, read, fromHex(words), fromHex(report_id));
        assert.equal(toHex(made), report);
        assert.deepEqual(await checkReport(campaign, made), answer);
        assert.deepEqual(reportFromJson(reportToJson(made)), made);
      }
    }
  });
}

test("there are vectors for every shape of report", () => {
  const shapes = new Set(good.flatMap((name) => load(name).suites.map(({ config }) => config.mechanism.shape)));
  assert.equal(shapes.size, 10);
});

test("refuses bad reports by their codes", async () => {
  for (const { why, config, report, code } of load("bad_reports.json").refuse) {
    const campaign = await readConfig(config);
    await assert.rejects(checkReport(campaign, fromHex(report)), (error) => error instanceof Refused && error.code === code, why);
  }
});

test("refuses bad batches by their codes", () => {
  for (const { why, stream, largest, most, code } of load("bad_frames.json").refuse) {
    assert.throws(() => readFrames(fromHex(stream), { largest, most }), (error) => error.code === code, why);
  }
});

test("refuses bad texts by their codes", () => {
  for (const { why, text, code } of load("bad_json.json").refuse) {
    assert.throws(() => reportFromJson(text), (error) => error.code === code, why);
  }
});

test("reads back the batches it writes", () => {
  const reports = [new Uint8Array([1, 2, 3]), new Uint8Array(0), new Uint8Array(300)];
  assert.deepEqual(readFrames(toFrames(reports)), reports);
});
