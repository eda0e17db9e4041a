/** Series: Python's calendars, panels, texts and ids; what a device answers of one, and what it says of it. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { Device, MemoryLedger, readDescription, toHex } from "../keyveil.js";
import { readCampaign } from "../src/descriptions/campaign.js";
import { beginOf, panelOf } from "../src/descriptions/series.js";
import { sha256, toUtf8 } from "../src/numerics/bytes.js";
import { panelIn } from "../src/client/vote.js";
import { campaignText, description, QUIET, stateOf, UNREADABLE } from "./support/campaigns.js";
import { load } from "./support/vectors.js";

const vectors = load("series.json");
const idOf = async (text) => toHex(await sha256(toUtf8(text)));
const SECRET = "5e".repeat(32);
const MONDAY = Date.UTC(2026, 10, 23);
const WEEK = 7 * 86_400_000;
const held = { maps: 12 };

/** The description of a wave of a weekly series. */
const wave = (number, { series = {}, ...campaign } = {}) =>
  description({
    campaign: {
      series: { answers: 2, every: "week", start: "2026-11-23", wave: number, waves: 6, ...series },
      ...campaign,
    },
  });

/** The waves that the device of these tests answers. */
const ownPanel = async () => panelIn(await readDescription(wave(1)), SECRET);
const open = (one, ledger, options = {}) => Device.open(one, { ...QUIET, ledger, now: () => MONDAY, ...options });

test("calendars are Python's", () => {
  assert.ok(vectors.calendar.length);
  for (const { series, begins } of vectors.calendar) {
    const found = begins.map((_, place) => beginOf(series, place + 1) / 1000);
    assert.deepEqual(found, begins, JSON.stringify(series));
  }
});

test("panels are Python's, from a place and from a secret", async () => {
  assert.ok(vectors.panels.some(({ secret }) => secret));
  for (const { waves, answers, place, panel, secret, series } of vectors.panels) {
    assert.deepEqual(panelOf({ waves, answers }, BigInt(place)), panel);
    if (secret) assert.deepEqual(await panelIn({ series, campaign: { series: { waves, answers } } }, secret), panel);
  }
});

test("a wave leads to its series: Python's texts and ids", async () => {
  assert.ok(vectors.texts.length);
  for (const { why, campaign, id, whole, series, ends } of vectors.texts) {
    const read = readCampaign(campaign);
    assert.equal(read.series.text, whole, why);
    assert.deepEqual([await idOf(campaign), await idOf(whole)], [id, series], why);
    assert.equal(read.end, 1000 * ends, why);
    assert.throws(() => readCampaign(whole), { code: "bad-description" }, "a series as a whole");
  }
});

test("every wave asks the same share of all devices", () => {
  for (const [waves, answers] of [
    [2, 1],
    [7, 3],
    [52, 5],
    [12, 12],
    [1000, 7],
  ]) {
    const counts = new Map();
    for (let first = 0; first < waves; first++) {
      const place = ((2n * BigInt(first) + 1n) << 256n) / (2n * BigInt(waves));
      const panel = panelOf({ waves, answers }, place);
      assert.equal(new Set(panel).size, answers);
      for (const one of panel) counts.set(one, (counts.get(one) ?? 0) + 1);
    }
    assert.deepEqual([...counts.values()], Array(waves).fill(answers));
  }
});

test("a series is booked as a whole with its first answer, and is one line of the status", async () => {
  const ledger = new MemoryLedger({ secret: SECRET });
  const [first, second] = await ownPanel();
  const other = [1, 2, 3, 4, 5, 6].find((number) => number !== first && number !== second);
  const status = async (number) => (await open(wave(number), ledger)).status();
  assert.deepEqual([(await status(first)).spent, (await status(first)).promised], [0, 2]);
  assert.equal((await (await open(wave(other), ledger)).report(UNREADABLE)).code, "other-wave");
  assert.equal((await (await open(wave(first), ledger)).report(held)).code, "done");
  const { spent, spentInAll, spentInAYear, answers, series } = await status(other);
  assert.deepEqual(
    { spent, spentInAll, spentInAYear, answers },
    { spent: 1, spentInAll: 2, spentInAYear: 1, answers: 1 },
  );
  assert.equal((await (await open(wave(second), ledger)).report(held)).code, "done");
  assert.deepEqual([(await status(other)).spent, (await status(other)).spentInAll], [2, 2]);
  const state = await stateOf(ledger);
  assert.deepEqual(Object.keys(state.series), [series]);
  assert.deepEqual(Object.keys(state.series[series].waves).map(Number), [first, second]);
});

test("the price of the whole is exact, and must fit before the first answer", async () => {
  const [first] = await ownPanel();
  const ask = async (options) =>
    (await (await open(wave(first), new MemoryLedger({ secret: SECRET }), options)).report(held)).code;
  assert.equal(await ask({ campaignCap: 2, lifetimeCap: 2 }), "done");
  assert.equal(await ask({ campaignCap: 2 - 2 ** -51 }), "over-campaign-cap");
  assert.equal(await ask({ lifetimeCap: 2 - 2 ** -51 }), "over-lifetime-cap");
  assert.equal(await ask({ yearlyCap: 0.5 }), "over-yearly-cap");
  assert.equal(await ask({ yearlyCap: 1, lifetimeCap: Infinity }), "done");
});

test("a life without an end needs a yearly cap, and says what it is", async () => {
  const ledger = new MemoryLedger({ secret: SECRET });
  await assert.rejects(open(wave(1), ledger, { lifetimeCap: Infinity }), TypeError);
  await assert.rejects(open(wave(1), ledger, { lifetimeCap: Infinity, yearlyCap: Infinity }), TypeError);
  await assert.rejects(open(wave(1), ledger, { yearlyCap: 0 }), TypeError);
  const device = await open(wave(1), ledger, { lifetimeCap: Infinity, yearlyCap: 3 });
  assert.equal((await device.status()).worstCase, Infinity);
  const { text } = await device.explain(held);
  assert.match(text, /Per year: 0 of 3, from 50 % to at most 95 % in any 365 days\./);
  assert.doesNotMatch(text, /Infinity/);
});

test("explain says what the whole costs, how often, and that nobody else knows when", async () => {
  const ledger = new MemoryLedger({ secret: SECRET });
  const panel = await ownPanel();
  const other = [1, 2, 3, 4, 5, 6].find((number) => !panel.includes(number));
  const { text } = await (await open(wave(other), ledger)).explain(held);
  const words = `asked every week, 6 times. This device answers 2 of these waves (${panel.join(", ")}), each once`;
  assert.ok(text.includes(words), text);
  assert.ok(text.includes("Sent: nothing; this wave asks other devices."));
  assert.ok(text.includes("epsilon 0 of the 2 that"));
});

test("connect takes the open wave of a series, and no other campaign", async () => {
  const [first] = await ownPanel();
  const one = wave(first);
  const { id, series, campaign } = await readDescription(one);
  const { campaign: text, ...round } = one;
  const told = { number: first, id, campaign: text, round: { ...round, campaign: id }, uploads: "open", ids: "own" };
  const view = (said) => ({ id: series, campaign: campaign.series.text, state: "open", wave: said });
  const connect = (said, of = series) =>
    Device.connect(`https://collector.example/v1/series/${of}`, {
      ...QUIET,
      ledger: new MemoryLedger({ secret: SECRET }),
      now: () => MONDAY,
      fetch: async () => new Response(JSON.stringify(said)),
    });
  const device = await connect(view(told));
  assert.equal(device.id, id);
  assert.equal((await device.report(held)).code, "done");
  await assert.rejects(connect(view(null)), { code: "waiting" });
  await assert.rejects(connect(view({ ...told, round: null })), { code: "waiting" });
  await assert.rejects(connect(view(told), "ab".repeat(32)), { code: "other-campaign" });
  await assert.rejects(connect(view({ ...told, campaign: campaignText() })), { code: "other-campaign" });
  await assert.rejects(connect(view("text")), { code: "bad-description" });
  await assert.rejects(connect([]), { code: "bad-description" });
});

test("what waits of an earlier wave is sent to that wave; a page that hides sends its own", async () => {
  const ledger = new MemoryLedger({ secret: SECRET });
  const panel = await ownPanel();
  const asked = [];
  const fetch = async (url, { body }) => {
    asked.push([url, body.byteLength]);
    return new Response('{"reports":["accepted"]}');
  };
  const devices = [];
  for (const number of panel) {
    const now = () => MONDAY + (number - 1) * WEEK;
    devices.push(await open(wave(number), ledger, { fetch, now, url: "https://collector.example" }));
    await devices.at(-1).enable();
    await devices.at(-1).submit(held);
  }
  assert.equal((await devices[1].status()).queued, 2);
  assert.equal((await devices[1].upload()).sent, 2);
  assert.deepEqual(
    asked.map(([url]) => url),
    [1, 0].map((place) => `https://collector.example/v1/campaigns/${devices[place].id}/reports`),
  );
  assert.equal((await devices[0].status()).sent, 2);
});
