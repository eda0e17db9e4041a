/** Consent, caps, memory, the queue, and what goes wrong in the field. */
import assert from "node:assert/strict";
import { mkdtempSync, readFileSync, writeFileSync } from "node:fs";
import { chmod, mkdir } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import {
  Device,
  FileLedger,
  MemoryLedger,
  asksNotToTrack,
  buildMechanism,
  checkReport,
  encodeRecord,
  epsilonOf,
  readConfig,
  readFrames,
  toHex,
} from "../keyveil.js";

const vectors = (name) =>
  JSON.parse(readFileSync(new URL(`../../../tests/vectors/${name}.json`, import.meta.url), "utf8")).suites;
const config = (name = "pckv-ue") => vectors(name)[0].config;
/** The same question in another campaign, with fields changed. */
const renamed = (one, fields) => ({ ...one, campaign: JSON.stringify({ ...JSON.parse(one.campaign), ...fields }) });
const quiet = { environment: {} };
const held = { maps: 12, chess: 50 };

async function agreeing(one = config(), options = {}) {
  const device = await Device.open(one, { ledger: new MemoryLedger(), ...quiet, ...options });
  await device.enable();
  return device;
}

/** A collector that answers as told, and remembers what came. */
function collector(...answers) {
  const bodies = [];
  const fetch = async (url, { body }) => {
    bodies.push({ url, reports: readFrames(body).map(toHex) });
    const [status, headers] = answers.shift() ?? [200, {}];
    if (status === "down") throw new TypeError("no network");
    return Response.json({ reports: readFrames(body).map(() => "accepted") }, { status, headers });
  };
  return { bodies, fetch };
}

const code = async (promise) => (await promise).code;

test("nothing is sent before the person agrees, and nothing after they no longer do", async () => {
  const { bodies, fetch } = collector();
  const device = await Device.open(config(), { ledger: new MemoryLedger(), ...quiet, url: "https://c.example", fetch });
  assert.equal(await code(device.report(held)), "not-enabled");
  await device.enable();
  assert.ok((await device.report(held)).ok);
  await device.disable();
  assert.equal(await code(device.send()), "not-enabled");
  await device.enable();
  assert.deepEqual(await device.send(), { ok: true, sent: 0, refused: [] });
  assert.equal(bodies.length, 0);
  assert.ok((await device.status()).spent > 0, "what was spent stays spent");
});

test("a setting against tracking is honoured", async () => {
  for (const environment of [
    { navigator: { globalPrivacyControl: true } },
    { navigator: { doNotTrack: "1" } },
    { process: { env: { DO_NOT_TRACK: "1" } } },
  ]) {
    assert.ok(asksNotToTrack(environment));
    const device = await agreeing(config(), { environment });
    assert.equal(await code(device.report(held)), "do-not-track");
    assert.equal(await code(device.send()), "do-not-track");
  }
  assert.ok(!asksNotToTrack({ navigator: { doNotTrack: "0" }, process: { env: { DO_NOT_TRACK: "0" } } }));
});

test("unchanged data get the same bytes at no cost, changed data a new answer at full cost", async () => {
  const device = await agreeing();
  const first = await device.report(held);
  for (let day = 0; day < 30; day++) assert.deepEqual((await device.report(held)).report, first.report);
  const { spent } = await device.status();
  assert.ok(Math.abs(spent - 1.5) < 1e-9);
  await device.report({ maps: 13 });
  assert.ok(Math.abs((await device.status()).spent - 2 * spent) < 1e-9);
});

test("the same question in another campaign repeats the answer under a new header", async () => {
  const ledger = new MemoryLedger();
  const one = await agreeing(config(), { ledger });
  const two = await agreeing(renamed(config(), { name: "tomorrow" }), { ledger });
  const [first, second] = [await one.report(held), await two.report(held)];
  assert.equal(second.spent, 0);
  assert.equal(toHex(first.report.subarray(35)), toHex(second.report.subarray(35)));
  assert.notEqual(toHex(first.report.subarray(0, 35)), toHex(second.report.subarray(0, 35)));
});

test("an answer bound to its report's id is not repeated elsewhere", async () => {
  const ledger = new MemoryLedger();
  const one = await agreeing(config("bucket"), { ledger });
  const other = renamed(config("bucket"), { name: "tomorrow" });
  const two = await agreeing(other, { ledger });
  await one.report(held);
  const second = await two.report(held);
  assert.ok(second.spent > 0);
  await checkReport(await readConfig(other), second.report);
});

test("caps are kept, and a config that asks for more is refused before data are read", async () => {
  await assert.rejects(Device.open(config(), { ledger: new MemoryLedger(), campaignCap: 1 }), { code: "over-campaign-cap" });
  const device = await agreeing(config(), { campaignCap: 3.1, lifetimeCap: 100 });
  const answers = [];
  for (const minutes of [1, 2, 3]) answers.push(await device.report({ maps: minutes }));
  assert.deepEqual(answers.map(({ ok }) => ok), [true, true, false]);
  assert.equal(answers[2].code, "over-campaign-cap");
  const ledger = new MemoryLedger();
  const codes = [];
  for (const epsilonRange of [[0, 1], [0, 2], [0, 3]]) {
    const another = await agreeing(renamed(config(), { value_range: epsilonRange }), { ledger, lifetimeCap: 4 });
    codes.push((await another.report(held)).code);
  }
  assert.deepEqual(codes, [undefined, undefined, "over-lifetime-cap"]);
});

test("a mechanism that loses more than the campaign says is refused", async () => {
  for (const name of ["pckv-ue", "pckv-grr", "kvue", "bucket", "ue-sw", "oue", "olh", "krr-harmony", "privkvm"]) {
    const said = renamed(config(name), { epsilon: 0.5 });
    await assert.rejects(readConfig(said), { code: "loss-exceeds-epsilon" }, name);
  }
});

test("configs that make no sense are refused by code", async () => {
  const one = config();
  const { channel } = one.mechanism;
  const bad = {
    "unknown-version": [null, {}, { ...one, format: "keyveil-device/2" }],
    "unknown-mechanism": [{ ...one, mechanism: { shape: "toString" } }, { ...one, mechanism: null }],
    "bad-config": [
      { ...one, campaign: "{" },
      { ...one, campaign: "null" },
      { ...one, round: 70000 },
      { ...one, keys: [0, 1] },
      { ...one, mechanism: { ...one.mechanism, n_keys: 5 } },
      { ...one, mechanism: { ...one.mechanism, channel: { ...channel, keep: "0" } } },
      { ...one, mechanism: { ...one.mechanism, channel: { ...channel, flip: "x" } } },
      { ...one, mechanism: { ...one.mechanism, channel: undefined } },
      renamed(one, { value_range: [1, 1] }),
    ],
  };
  for (const [wanted, configs] of Object.entries(bad)) {
    for (const each of configs) await assert.rejects(readConfig(each), { code: wanted }, JSON.stringify(each)?.slice(0, 300));
  }
});

test("the loss of every vector's mechanism is within its campaign's epsilon, and near it for the tight ones", async () => {
  for (const name of ["pckv-ue", "pckv-grr", "kvue", "ks-ue", "ue-sw", "oue", "grr", "olh"]) {
    for (const { config: one } of vectors(name)) {
      assert.ok(Math.abs(epsilonOf(buildMechanism(one.mechanism).loss) - 1.5) < 1e-9, name);
    }
  }
});

test("an expired campaign is not answered", async () => {
  const device = await agreeing(renamed(config(), { expires: "2020-01-01" }));
  assert.equal(await code(device.report(held)), "expired");
});

test("a campaign ends when Python says it does: a date includes its day, a time without a zone is UTC", async () => {
  const ends = { "2030-01-31": "2030-02-01T00:00:00Z", "2030-01-31T12:00:00": "2030-01-31T12:00:00Z", "2030-01-31 12:00": "2030-01-31T12:00:00Z", "2030-01-31T12:00:00+02:00": "2030-01-31T10:00:00Z" };
  for (const [expires, end] of Object.entries(ends)) {
    for (const [early, wanted] of [[1, undefined], [0, "expired"]]) {
      const device = await agreeing(renamed(config(), { expires }), { now: () => Date.parse(end) - early });
      assert.equal(await code(device.report(held)), wanted, expires);
    }
  }
  assert.equal(await code((await agreeing(renamed(config(), { expires: "some day" }))).report(held)), "expired");
});

test("odd values are settled by rule, and no message holds one", async () => {
  const campaign = await readConfig(config());
  const levels = (values) => encodeRecord(campaign, values).map(({ code: key, level }) => [key, level]);
  assert.deepEqual(levels({ maps: Infinity, mail: -Infinity }), [[0, 2n ** 64n], [1, 0n]]);
  assert.deepEqual(levels({ maps: Number.NaN }), []);
  assert.deepEqual(levels(new Map([["maps", 60]])), [[0, 2n ** 64n]]);
  const device = await agreeing();
  for (const odd of ["4711", null, true, 4711n, [4711]]) {
    const answer = await device.report({ maps: odd });
    assert.equal(answer.code, "bad-record");
    assert.ok(!answer.reason.includes("4711"));
  }
  assert.equal((await device.status()).spent, 0);
});

test("reports have one length and take one number of words, whatever the record", async () => {
  for (const name of ["pckv-ue", "pckv-grr", "kvue", "bucket", "ue-sw", "grr", "oue", "olh"]) {
    const device = await agreeing(config(name), { campaignCap: 1e6, lifetimeCap: 1e6 });
    const lengths = new Set();
    for (let size = 0; size < 12; size++) {
      const some = Object.fromEntries(Array.from({ length: size }, (_, key) => [`app ${key}`, key]));
      lengths.add((await device.report({ ...some, maps: size })).report.length);
    }
    assert.equal(lengths.size, 1, name);
  }
});

test("batches are uploaded in frames, once, to the campaign's address", async () => {
  const { bodies, fetch } = collector();
  const device = await agreeing(config(), { fetch, url: "https://c.example/", batch: 2, campaignCap: 100, lifetimeCap: 100 });
  for (let minutes = 0; minutes < 5; minutes++) await device.report({ maps: minutes });
  assert.deepEqual(await device.send(), { ok: true, sent: 5, refused: [] });
  assert.deepEqual(bodies.map(({ reports }) => reports.length), [2, 2, 1]);
  assert.equal(bodies[0].url, `https://c.example/v1/campaigns/${device.id}/reports`);
  assert.equal(new Set(bodies.flatMap(({ reports }) => reports)).size, 5);
  assert.deepEqual(await device.send(), { ok: true, sent: 0, refused: [] });
});

test("failures wait longer each time, and Retry-After is honoured", async () => {
  let clock = 1_000_000;
  const down = ["down", {}];
  const { bodies, fetch } = collector(down, [503, {}], [429, { "retry-after": "120" }], [200, {}]);
  const device = await agreeing(config(), { fetch, url: "https://c.example", now: () => clock });
  await device.report(held);
  assert.equal(await code(device.send()), "waiting");
  assert.equal(await code(device.send()), "waiting");
  assert.equal(bodies.length, 1, "not before its time");
  clock += 1_000;
  assert.equal(await code(device.send()), "waiting");
  clock += 2_000;
  assert.equal(await code(device.send()), "waiting");
  clock += 119_000;
  assert.equal(await code(device.send()), "waiting");
  assert.equal(bodies.length, 3);
  clock += 1_001;
  assert.deepEqual(await device.send(), { ok: true, sent: 1, refused: [] });
  assert.equal(new Set(bodies.flatMap(({ reports }) => reports)).size, 1, "the same id every time");
});

test("what the collector refuses for good is counted, not repeated", async () => {
  const { bodies, fetch } = collector([400, {}]);
  const device = await agreeing(config(), { fetch, url: "https://c.example" });
  await device.report(held);
  const { sent, refused } = await device.send();
  assert.deepEqual([sent, refused.map(({ code: why }) => why)], [0, ["batch-refused"]]);
  assert.equal((await device.status()).refused, 1);
  assert.equal(bodies.length, 1);
});

test("the queue is bounded, and drops are counted", async () => {
  const device = await agreeing(config(), { mostQueued: 3, campaignCap: 100, lifetimeCap: 100 });
  for (let minutes = 0; minutes < 8; minutes++) await device.report({ maps: minutes });
  const { queued, dropped } = await device.status();
  assert.deepEqual([queued, dropped], [3, 5]);
});

test("reports travel by https, or to this machine", async () => {
  const open = (url) => Device.open(config(), { ledger: new MemoryLedger(), url });
  await assert.rejects(open("http://c.example"), { code: "https-required" });
  await assert.rejects(open("http://127.example.com"), { code: "https-required" });
  for (const url of ["https://c.example", "http://localhost:8000", "http://127.0.0.1:8000", "http://[::1]:8000"]) await open(url);
});

test("a ledger in a file survives, and a corrupt one stops all reports", async () => {
  const path = join(mkdtempSync(join(tmpdir(), "keyveil-")), "ledger.json");
  const one = await agreeing(config(), { ledger: new FileLedger(path) });
  const first = await one.report(held);
  const two = await Device.open(config(), { ...quiet, ledger: new FileLedger(path) });
  assert.deepEqual((await two.report(held)).report, first.report);
  writeFileSync(path, readFileSync(path, "utf8").slice(0, 40));
  assert.equal(await code(two.report(held)), "ledger-corrupt");
  assert.equal(await code(two.enable()), "ledger-corrupt");
});

test("two processes that share a ledger lose no debit", async () => {
  const path = join(mkdtempSync(join(tmpdir(), "keyveil-")), "ledger.json");
  const options = { campaignCap: 1e6, lifetimeCap: 1e6 };
  const devices = [];
  for (let n = 0; n < 4; n++) devices.push(await agreeing(config(), { ...options, ledger: new FileLedger(path) }));
  await Promise.all(Array.from({ length: 40 }, (_, n) => devices[n % 4].report({ maps: n })));
  assert.ok(Math.abs((await devices[0].status()).spent - 60) < 1e-6);
});

test("a folder that cannot be written is a refusal", { skip: process.getuid?.() === 0 && "root writes anywhere" }, async () => {
  const folder = join(mkdtempSync(join(tmpdir(), "keyveil-")), "closed");
  await mkdir(folder);
  await chmod(folder, 0o500);
  const device = await Device.open(config(), { ...quiet, ledger: new FileLedger(join(folder, "ledger.json")) });
  assert.equal(await code(device.enable()), "ledger-unwritable");
});

test("a folder that is not there is a refusal", async () => {
  const device = await Device.open(config(), { ...quiet, ledger: new FileLedger("/nowhere/at/all/ledger.json") });
  assert.equal(await code(device.enable()), "ledger-unwritable");
});

test("the person is told what is true, what was sent and what can be guessed", async () => {
  const device = await agreeing();
  assert.match((await device.explain(held)).text, /You hold maps, chess\. Nothing was sent\. Nobody learned anything\./);
  await device.report(held);
  const { sent, guess } = await device.explain(held);
  assert.match(sent, /^3 bytes were sent, .* They read \[[0-2](,[0-2]){10}\]\.$/);
  assert.match(guess, /at most 81\.8 % sure/);
});

test("the types name what the module exports, and nothing else", async () => {
  const types = readFileSync(new URL("../index.d.ts", import.meta.url), "utf8");
  const declared = [...types.matchAll(/^export (?:declare )?(?:class|function|const) (\w+)/gm)].map((match) => match[1]);
  assert.deepEqual(declared.sort(), Object.keys(await import("../keyveil.js")).sort());
});

test("a description that was tampered with is refused", () => {
  const described = (name, changes) => {
    const whole = structuredClone(config(name).mechanism);
    for (const [path, value] of Object.entries(changes)) {
      const steps = path.split(".");
      const holder = steps.slice(0, -1).reduce((part, step) => part[step], whole);
      holder[steps.at(-1)] = value;
    }
    return () => buildMechanism(whole);
  };
  const refused = { name: "Refused" };
  assert.ok(described("pckv-ue", {})());
  assert.throws(described("pckv-ue", { n_keys: 1.5 }), refused);
  assert.throws(described("pckv-ue", { pairs_per_user: 0 }), refused);
  assert.throws(described("pckv-ue", { pairs_per_user: 1e9 }), refused);
  assert.throws(described("krr-harmony", { "oracle.n_symbols": 3 }), refused);
  assert.throws(described("privkvm-star", { "channel.window.width": 2 }), refused);
  assert.throws(described("ue-sw", { "channel.window.n_in": 1 }), refused);
  assert.throws(described("bucket", { cohorts: 0 }), refused);
  assert.throws(described("bucket", { buckets: "9" }), refused);
  assert.throws(described("olh", { "oracle.cohorts": -1 }), refused);
  assert.throws(described("privkv-broadcast", { levels: [] }), refused);
});
