/** One vote: a round is answered once, under one description, for at most the campaign's epsilon. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { inspect } from "node:util";
import {
  Device,
  fromHex,
  MemoryLedger,
  randomBytes,
  readDescription,
  readRecord,
  readReport,
  toHex,
} from "../keyveil.js";
import { hmac, toUtf8 } from "../src/numerics/bytes.js";
import { agreeing, description, MECHANISM, QUIET, stateOf, unitsIn, UNREADABLE } from "./support/campaigns.js";

const held = { maps: 12, chess: 50 };
const kvue = (epsilon = "1") => ({ id: "kvue", epsilon });
const code = async (promise) => (await promise).code;
const open = (one, options = {}) => Device.open(one, { ledger: new MemoryLedger(), ...QUIET, ...options });

test("asked again, with whatever record, a device repeats its bytes and does not read the record", async () => {
  const device = await open(description());
  const first = await device.report(held);
  assert.deepEqual([first.ok, first.code], [true, "done"]);
  for (const record of [held, { maps: 1 }, {}, UNREADABLE]) {
    assert.deepEqual((await device.report(record)).bytes, first.bytes);
  }
  const { spent, answers } = await device.status();
  assert.deepEqual([spent, answers], [1, 1]);
});

test("who submits a record is told what was not taken as it was; a repeat reads nothing", async () => {
  const odd = { maps: 30, mail: Number.NaN, chess: 61, go: 3, "": Number.NaN };
  const device = await agreeing(description());
  const { ok, isRepeat, reading } = await device.submit(odd);
  assert.deepEqual([ok, isRepeat], [true, false]);
  assert.deepEqual([reading.unknown, reading.notNumbers, reading.clamped], [["go", ""], ["mail"], ["chess"]]);
  assert.equal(reading.words(), "not asked about: go, ; no number: mail; moved into [0, 60]: chess");
  const again = await device.submit(UNREADABLE);
  assert.deepEqual(again, { ok: true, code: "done", isRepeat: true, reading: null });

  const plain = await (await agreeing(description())).submit(new Map([["maps", 60]]));
  assert.equal(plain.reading.words(), "");
  const others = await agreeing(description({ campaign: { other: true } }));
  const { reading: averaged } = await others.submit({ other: 1, go: 99 });
  assert.deepEqual([averaged.unknown, averaged.clamped], [["go"], ["go"]]);
});

test("what was read is shown by no console and no JSON", async () => {
  const { reading } = await (await agreeing(description())).submit({ "a private name": 1 });
  assert.deepEqual(reading.unknown, ["a private name"]);
  for (const shown of [
    JSON.stringify({ reading }),
    inspect(reading, { depth: null, showHidden: true }),
    `${reading}`,
  ]) {
    assert.ok(!shown.includes("private name"), shown);
  }
  assert.deepEqual(structuredClone(reading), {});
});

test("P1: of four rounds for disjoint groups a device answers one, and spends what was promised", async () => {
  const ends = ["0", "1/4", "1/2", "3/4", "1"];
  for (let person = 0; person < 20; person++) {
    const ledger = new MemoryLedger();
    const codes = [];
    for (let at = 0; at < 4; at++) {
      const round = description({
        number: at + 1,
        protocol: "auto/1",
        group: ends.slice(at, at + 2),
        mechanism: kvue(),
      });
      const device = await open(round, { ledger });
      codes.push(await code(device.report(codes.includes("done") ? UNREADABLE : held)));
    }
    assert.equal(codes.indexOf("done"), await quarter(ledger), "the group in which the device has its place");
    assert.deepEqual(codes.sort(), ["done", "other-group", "other-group", "other-group"]);
    assert.ok(unitsIn(await stateOf(ledger)) <= 1n << 192n);
  }
});

/** In which quarter of [0, 1) a device stands: it follows from its secret and the campaign's id. */
async function quarter(ledger) {
  const { id } = await readDescription(description());
  const [first] = await hmac(fromHex((await stateOf(ledger)).secret), toUtf8(`place ${id}`));
  return first >> 6;
}

test("P1: rounds of a campaign add up against its epsilon, cheap ones hide no dear one (A2)", async () => {
  const ledger = new MemoryLedger();
  const ask = async (number, epsilon, record = held) => {
    const device = await open(description({ number, mechanism: kvue(epsilon) }), { ledger });
    return code(device.report(record));
  };
  assert.equal(await ask(1, "1/2"), "done");
  assert.equal(await ask(2, "1/1000"), "done");
  assert.equal(await ask(3, "1/2", UNREADABLE), "over-promise");
  assert.equal(await ask(4, "499/1000"), "done");
  assert.equal(await ask(5, "1/1000000", UNREADABLE), "over-promise");
  // What was answered is repeated, though nothing new is.
  assert.equal(await ask(1, "1/2", UNREADABLE), "done");
});

test("P2: a round that is opened again with its keys in another order is refused for good", async () => {
  const keys = ["a key that somebody holds", "one that nobody holds"];
  const asked = (order) => description({ campaign: { keys }, keys: order, mechanism: kvue() });
  for (const record of [{ [keys[0]]: 30 }, {}]) {
    const ledger = new MemoryLedger();
    const first = await (await open(asked([0, 1]), { ledger })).report(record);
    for (let again = 0; again < 3; again++) {
      assert.equal(await code((await open(asked([1, 0]), { ledger })).report(UNREADABLE)), "pinned");
    }
    assert.deepEqual((await (await open(asked([0, 1]), { ledger })).report(UNREADABLE)).bytes, first.bytes);
  }
});

test("P2: every field of a description is pinned", async () => {
  const ledger = new MemoryLedger();
  assert.equal(await code((await open(description(), { ledger })).report(held)), "done");
  const changes = [
    { purpose: "another" },
    { protocol: "one-round/2" },
    { group: ["0", "1/2"] },
    { group: ["1/2", "1"] },
    { keys: [0, 1, 2] },
    { keys: [1] },
    { mechanism: { ...MECHANISM, epsilon: "1/2" } },
    { mechanism: { ...MECHANISM, allocation: "tight" } },
    { mechanism: kvue() },
  ];
  for (const change of changes) {
    const device = await open(description(change), { ledger });
    assert.equal(await code(device.report(UNREADABLE)), "pinned", JSON.stringify(change));
  }
  assert.equal(unitsIn(await stateOf(ledger)), (await readDescription(description())).price);
});

test("P3: daily change spends once", async () => {
  const device = await agreeing();
  const seen = new Set();
  for (let day = 0; day < 30; day++) seen.add(toHex((await device.report({ maps: day })).bytes));
  assert.equal(seen.size, 1);
  assert.equal((await device.status()).spent, 1);
});

test("P6: another campaign gets noise of its own", async () => {
  const ledger = new MemoryLedger();
  const draws = [];
  const entropy = (size) => draws.push(size) && randomBytes(size);
  const keys = Array.from({ length: 200 }, (_, at) => `app ${at}`);
  const payloads = [];
  for (const name of ["today", "tomorrow"]) {
    const device = await open(description({ campaign: { name, keys } }), { ledger, entropy });
    payloads.push(toHex(readReport((await device.report({ "app 3": 12 })).bytes).payload));
  }
  assert.equal(draws.length, 2);
  assert.notEqual(payloads[0], payloads[1]);
  assert.equal(unitsIn(await stateOf(ledger)), 2n * (await readDescription(description())).price);
});

test("P6: beyond its caps a device repeats what it said, and says nothing new", async () => {
  const ledger = new MemoryLedger();
  const first = await open(description(), { ledger });
  const { bytes } = await first.report(held);
  const careful = { ledger, campaignCap: 0.5, lifetimeCap: 0.5 };
  assert.deepEqual((await (await open(description(), careful)).report(UNREADABLE)).bytes, bytes);
  const other = description({ campaign: { name: "tomorrow" } });
  assert.equal(await code((await open(other, careful)).report(UNREADABLE)), "over-campaign-cap");
  assert.equal(await code((await open(other, { ...careful, campaignCap: 4 })).report(UNREADABLE)), "over-lifetime-cap");
});

test("a price above the campaign's epsilon is never paid", async () => {
  const device = await open(description({ mechanism: { ...MECHANISM, epsilon: "1000001/1000000" } }));
  assert.equal(await code(device.report(UNREADABLE)), "over-promise");
});

test("A1: there is no kernel to lie about, and no debit is negative", async () => {
  const starts = (...list) => ({ id: "size-class", epsilon: "1", starts: list });
  const lies = [
    // fake = 1000, keep = 1001, flip all other words: the truth for a declared epsilon of 0.001
    {
      shape: "signed-response",
      n_keys: 3,
      pairs_per_user: 1,
      channel: { keep: "1001", flip: "18446744073709541615", fake: "1000" },
    },
    {
      id: "pckv-grr",
      epsilon: "1/1000",
      allocation: "optimal",
      pairs_per_user: 1,
      channel: { keep: "1001", fake: "1000" },
    },
    // a mechanism about ten keys whose encoder knows one
    { id: "grr", epsilon: "1", n_keys: 10 },
    { id: "grr", epsilon: "1", encoder: { shape: "own-key", n_keys: 1 } },
    // classes that not every size falls into
    starts(3, 4),
    starts(0, 4, 4),
    starts(0),
    // keep below fake: a negative epsilon
    { id: "kvue", epsilon: "-1" },
    { id: "kvue", epsilon: "0" },
    { id: "kvue", epsilon: "1", keep: "1", fake: "2" },
  ];
  for (const mechanism of lies) {
    await assert.rejects(open(description({ mechanism })), { code: "bad-description" }, JSON.stringify(mechanism));
  }
  // The cheapest answers that can be asked for still cost something.
  const ledger = new MemoryLedger();
  let before = 0n;
  for (let number = 1; number <= 3; number++) {
    const device = await open(description({ number, mechanism: kvue("1/1000000") }), { ledger });
    assert.equal(await code(device.report(held)), "done");
    const spent = unitsIn(await stateOf(ledger));
    assert.ok(spent > before);
    before = spent;
  }
});

test("A5: a clock set back revives no campaign, nor does a restart", async () => {
  const ledger = new MemoryLedger();
  let clock = Date.parse("2030-01-30T12:00:00Z");
  const one = description({ campaign: { expires: "2030-01-31" } });
  const options = { ledger, now: () => clock };
  const device = await open(one, options);
  assert.equal((await device.status()).code, "done");
  clock = Date.parse("2030-02-01T00:00:00Z");
  assert.equal(await code(device.report(UNREADABLE)), "expired");
  clock = Date.parse("2030-01-01T00:00:00Z");
  assert.equal(await code(device.report(UNREADABLE)), "expired");
  assert.equal(await code((await open(one, options)).report(UNREADABLE)), "expired");
  clock = Number.NaN;
  assert.equal(await code((await open(one, options)).report(UNREADABLE)), "expired");
});

test("a campaign ends when Python says it does: a date includes its day, a time without a zone is UTC", async () => {
  const ends = {
    "2030-01-31": "2030-02-01T00:00:00Z",
    "2030-01-31T12:00:00": "2030-01-31T12:00:00Z",
    "2030-01-31 12:00": "2030-01-31T12:00:00Z",
    "2030-01-31T12:00:00+02:00": "2030-01-31T10:00:00Z",
    "9998-12-31": "9999-01-01T00:00:00Z",
  };
  for (const [expires, end] of Object.entries(ends)) {
    for (const [early, wanted] of [
      [1, "done"],
      [0, "expired"],
    ]) {
      const device = await open(description({ campaign: { expires } }), { now: () => Date.parse(end) - early });
      assert.equal(await code(device.report(held)), wanted, expires);
    }
  }
});

test("the order: consent, the end, the vote, the group, the promise, the caps, the record", async () => {
  const ledger = new MemoryLedger();
  let clock = 0;
  const nobody = ["0", `1/${"9".repeat(40)}`];
  const options = { ledger, now: () => clock, campaignCap: 1e-9, lifetimeCap: 1e-9 };
  const one = (change = {}) =>
    description({ campaign: { expires: "2030-01-31" }, group: nobody, mechanism: kvue("2"), ...change });
  const ask = async (change, more = {}) => code((await open(one(change), { ...options, ...more })).report(null));
  assert.equal(await ask({}), "other-group");
  assert.equal(await ask({ group: ["0", "1"] }), "over-promise");
  assert.equal(await ask({ group: ["0", "1"], mechanism: kvue() }), "over-campaign-cap");
  assert.equal(await ask({ group: ["0", "1"], mechanism: kvue() }, { campaignCap: 4 }), "over-lifetime-cap");
  const free = { campaignCap: 4, lifetimeCap: 16 };
  assert.equal(await ask({ group: ["0", "1"], mechanism: kvue() }, free), "bad-record");
  assert.equal(unitsIn(await stateOf(ledger)), 0n);
  const answered = await open(one({ group: ["0", "1"], mechanism: kvue() }), { ...options, ...free });
  assert.equal(await code(answered.report(held)), "done");
  assert.equal(await ask({}), "pinned");
  clock = Date.parse("2031-01-01");
  assert.equal(await ask({}), "expired");
  await answered.disable();
  assert.equal(await ask({}), "disabled");
  assert.equal(await ask({}, { environment: { process: { env: { DO_NOT_TRACK: "1" } } } }), "do-not-track");
});

test("disable() wipes bytes and queue, keeps pins and prices; enable() brings no answer back", async () => {
  const ledger = new MemoryLedger();
  const device = await agreeing(description(), { ledger });
  assert.equal(await code(device.submit(held)), "done");
  await device.disable();
  assert.equal(await code(device.report(UNREADABLE)), "disabled");
  await device.enable();
  assert.equal(await code(device.report(UNREADABLE)), "answered");
  assert.equal(await code(device.submit(UNREADABLE)), "answered");
  assert.equal(await code((await open(description({ keys: [1] }), { ledger })).report(UNREADABLE)), "pinned");
  const { spent, queued, answers } = await device.status();
  assert.deepEqual([spent, queued, answers], [1, 0, 1]);
});

test("odd values are settled by rule, and no message holds one", async () => {
  const round = await readDescription(description());
  const levels = (values) => readRecord(round, values).map(({ code: key, level }) => [key, level]);
  assert.deepEqual(levels({ maps: Infinity, mail: -Infinity }), [
    [0, 2n ** 64n],
    [1, 0n],
  ]);
  assert.deepEqual(levels({ maps: Number.NaN, "no key of theirs": 3 }), []);
  assert.deepEqual(levels(new Map([["maps", 60]])), [[0, 2n ** 64n]]);
  const device = await open(description());
  const values = ["4711", null, true, 4711n].map((maps) => ({ maps }));
  for (const odd of [...values, [4711], null, 4711, "4711", new Map([[4711, 1]])]) {
    const answer = await device.report(odd);
    assert.equal(answer.code, "bad-record");
    assert.ok(!JSON.stringify(answer).includes("4711"));
  }
  const broken = await device.report(UNREADABLE);
  assert.deepEqual([broken.ok, broken.code], [false, "fault"]);
  assert.equal((await device.status()).spent, 0);
});

test("reports have one length and take one number of words, whatever the record", async () => {
  const olh = { id: "olh", epsilon: "1", buckets: 4, cohorts: 16 };
  const mechanisms = [MECHANISM, kvue(), { id: "grr", epsilon: "1" }, { id: "oue", epsilon: "1" }, olh];
  for (const mechanism of mechanisms) {
    const sizes = new Set();
    for (let size = 0; size < 6; size++) {
      const some = Object.fromEntries(["maps", "mail", "chess", "x", "y"].slice(0, size).map((name) => [name, size]));
      const entropy = (bytes) => sizes.add(`${bytes} words`) && randomBytes(bytes);
      sizes.add((await (await open(description({ mechanism }), { entropy })).report(some)).bytes.length);
    }
    assert.equal(sizes.size, 2, mechanism.id);
  }
});

test("a source of noise that fails, or yields too little, makes no report and costs nothing", async () => {
  for (const entropy of [
    () => new Uint8Array(3),
    () => {
      throw new Error("no entropy");
    },
  ]) {
    const device = await open(description(), { entropy });
    assert.equal(await code(device.report(held)), "fault");
    assert.equal((await device.status()).spent, 0);
  }
});
