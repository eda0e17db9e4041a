/** What a device says of itself in the clear: fixed with its vote, and told to the person. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { Device, MemoryLedger, readReport } from "../keyveil.js";
import { description, QUIET } from "./support/campaigns.js";

const TOLD = { country: ["de"], platform: ["android", "ios"], told: "clear" };
const asked = (segments = TOLD) => ({
  ...description({ campaign: { segments } }),
  ...(segments.told === "clear" ? { format: "keyveil-round/3", dither: 1, labels: [1, 2] } : {}),
});
const open = (segments, { ledger = new MemoryLedger(), round = asked() } = {}) =>
  Device.open(round, { ledger, ...QUIET, segments });
const labelsOf = (bytes) => [...readReport(bytes).payload.slice(-2)];

test("a report carries the labels that the campaign names, and other for what it does not know", async () => {
  for (const [segments, labels] of [
    [undefined, [0, 0]],
    [{}, [0, 0]],
    [{ platform: "ios" }, [0, 2]],
    [{ country: "de", platform: "android", colour: "red" }, [1, 1]],
    [{ country: null, platform: "Windows" }, [0, 0]],
  ]) {
    const { bytes } = await (await open(segments)).report({ maps: 3 });
    assert.deepEqual(labelsOf(bytes), labels);
  }
});

test("names that every object inherits are no labels", async () => {
  const round = asked({ constructor: ["de"], toString: ["x"], told: "clear" });
  await assert.rejects(open({}, { round }), { code: "bad-description" });
  const inherited = { ...asked({ constructor: ["de"], told: "clear" }), labels: [1] };
  const { bytes } = await (await open({}, { round: inherited })).report({});
  assert.equal(readReport(bytes).payload.at(-1), 0);
});

test("labels belong to the vote", async () => {
  const ledger = new MemoryLedger();
  const first = await (await open({ platform: "ios" }, { ledger })).report({ maps: 3 });
  const later = await open({ platform: "android" }, { ledger });
  assert.deepEqual((await later.report({ mail: 9 })).bytes, first.bytes);
  const { text } = await later.explain({});
  assert.ok(text.includes("The report says in the clear, without noise: country other, platform ios."), text);
});

test("the person is told before anything is sent", async () => {
  const { text } = await (await open({ country: "de" })).explain({ maps: 3 });
  assert.ok(
    text.includes("A report says in the clear, without noise: country de, platform other. This is not private"),
  );
});

test("of private segments nothing is said in the clear", async () => {
  const round = { ...description(), campaign: asked({ platform: ["android", "ios"], told: "private" }).campaign };
  const silent = await (await open({}, { round })).report({});
  const { bytes } = await (await open({ platform: "ios" }, { round })).report({});
  assert.equal(bytes.length, silent.bytes.length);
});

test("what maps no names to texts is a programming mistake", async () => {
  for (const segments of [null, "ios", ["platform"], { platform: 7 }, { platform: ["ios"] }]) {
    await assert.rejects(open(segments), TypeError);
  }
});
