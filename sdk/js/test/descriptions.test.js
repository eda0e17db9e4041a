/** What a collector may send: exactly a round's fields, within bounds; anything else is refused, at once. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { expBelow, logAbove, Ratio, readDescription } from "../keyveil.js";
import { exactly, isWithin, toFloat, unitsOf } from "../src/numerics/exact.js";
import { campaignText, description, fastest, MECHANISM } from "./support/campaigns.js";

function refused(one, code = "bad-description", why = JSON.stringify(one)?.slice(0, 300)) {
  return assert.rejects(readDescription(one), { code }, why);
}
const without = (name) => {
  const { [name]: _, ...rest } = description();
  return rest;
};
const withMechanism = (change) => description({ mechanism: { ...MECHANISM, ...change } });

test("every field must be there, and no other", async () => {
  await readDescription(description());
  for (const name of Object.keys(description())) await refused(without(name));
  await refused({ ...description(), loss: "1" });
  for (const one of [null, undefined, 3, "text", [], {}]) await refused(one);
  for (const format of ["keyveil-device/1", "keyveil-round/4", "", 1, null]) {
    await refused(description({ format }), "unknown-version");
  }
});

test("fields are of their kind and within bounds", async () => {
  const bad = {
    number: [0, -1, 65536, 1.5, "1", true, null, Number.NaN, [1]],
    purpose: [null, 3, "x".repeat(201), "line\nbreak", "\u00e9", "\u007f"],
    protocol: ["", "auto", "auto/0", "auto/01", "Auto/1", "auto/100000", `${"a".repeat(41)}/1`, null, "auto/1\n"],
    group: [
      ...[null, [], ["0"], ["0", "1", "1"], ["1", "0"], ["0", "0"], ["0", "2"], [0, 1], ["0", "1/1"], ["0", "2/4"]],
      ...[["-1", "1"], ["0", "1e0"], ["00", "1"], ["0", `1/${"9".repeat(41)}`], ["0", "1/0"], "01"],
    ],
    keys: [[], [3], [-1], [0, 0], [0.5], ["0"], [true], {}, "0", [0, 1, 2, 0]],
    campaign: [null, {}, "", "{", "null", "[]", "\ud800"],
    mechanism: [null, [], "kvue", {}, { epsilon: "1" }, { id: 3 }],
  };
  for (const [name, values] of Object.entries(bad)) {
    for (const value of values) await refused({ ...description(), [name]: value });
  }
  for (const id of ["pckv-eu", "toString", "__proto__", ""]) {
    await refused(description({ mechanism: { id } }), "unknown-mechanism");
  }
});

test("a mechanism has its own parameters, each within bounds", async () => {
  const bad = [
    ...["0", "33", "-1", "1.0", 1, "2/2", null, `1/${"9".repeat(40)}`].map((epsilon) => ({ epsilon })),
    ...["extremal", "", null, "toString"].map((allocation) => ({ allocation })),
    ...[0, 8193, 1.5, "2", true].map((pairs_per_user) => ({ pairs_per_user })),
    { keep: "1" },
    { n_keys: 3 },
  ];
  for (const change of bad) await refused(withMechanism(change));
  const others = [
    { id: "bucket", epsilon: "1", pairs_per_user: 2, buckets: 9, occupied: 3, tie: 0, cohorts: 16 },
    { id: "bucket", epsilon: "1", pairs_per_user: 4, buckets: 9, occupied: 1, tie: 0, cohorts: 16 },
    { id: "bucket", epsilon: "1", pairs_per_user: 1, buckets: 2, occupied: 1, tie: -(2 ** 32), cohorts: 16 },
    { id: "privkv-broadcast", key_epsilon: "0", sign_epsilon: "1", levels: ["0", "1"] },
    { id: "privkv-broadcast", key_epsilon: "0", sign_epsilon: "1", levels: ["0", "1", "18446744073709551617"] },
    { id: "privkv-split", key_epsilon: "0", sign_epsilon: "1" },
    { id: "popular-size", epsilon: "1", popular: [3], most: 1, starts: [1] },
    { id: "popular-size", epsilon: "1", popular: [0, 0], most: 1, starts: [1] },
    { id: "popular-size", epsilon: "1", popular: [0], most: 1, starts: [0] },
    { id: "privkvm-star-oue", epsilon: "1", bins: 33 },
    { id: "record-size-bits", epsilon: "1", largest: 2 ** 17 },
    { id: "ue-sw", epsilon: "1", allocation: "tight", pairs_per_user: 1, bins: 4096, width: 2 ** 20 },
  ];
  for (const mechanism of others) await refused(description({ mechanism }));
  const good = [
    { id: "privkv-broadcast", key_epsilon: "0", sign_epsilon: "1", levels: ["0", "1", "18446744073709551616"] },
    { id: "popular-size", epsilon: "1", popular: [0, 2], most: 1, starts: [1] },
  ];
  for (const mechanism of good) await readDescription(description({ mechanism }));
});

test("a campaign's text is canonical and says what it must", async () => {
  const text = campaignText();
  const changed = (fields) => description({ campaign: fields });
  const bad = [
    ...[0, 33, -1].map((epsilon) => ({ epsilon })),
    ...[[], ["a", "a"], [""], [3], ["\ud800"]].map((keys) => ({ keys })),
    ...[
      [1, 1],
      [2, 1],
      [-1.7e308, 1.7e308],
    ].map((value_range) => ({ value_range })),
    ...[0, 1.5].map((pairs_per_user) => ({ pairs_per_user })),
    ...["some day", "2030-02-30", "0000-01-01", "2030-01-01T24:00", 3].map((expires) => ({ expires })),
    { keys: ["other"], other: true },
    ...[{ other: 1 }, { rho: 2 }, { users: 0 }, { bins: null }, { surprise: 1 }, { name: 3 }, { owner: null }],
  ];
  for (const fields of bad) await refused(changed(fields));
  const changes = [
    ['"epsilon":1.0', '"epsilon":1'],
    ["maps", "\\u006daps"],
    [',"owner":""', ""],
    ["{", " {"],
  ];
  for (const [was, is] of changes) await refused({ ...description(), campaign: text.replace(was, is) });
  await readDescription(changed({ bins: 8, users: 10, expires: "2030-02-28T23:59:59.5-01:30" }));
});

test("A4: what is meant to keep a device busy is refused at once", async () => {
  let deep = [];
  for (let level = 0; level < 100_000; level++) deep = [deep];
  const many = Array.from({ length: 100_000 }, (_, key) => `key ${key}`);
  const hostile = [
    description({ group: ["1e-400000000", "1"] }),
    description({ group: ["0", `0.${"0".repeat(1e6)}1`] }),
    withMechanism({ epsilon: "1e-400000000" }),
    withMechanism({ epsilon: deep }),
    { ...description(), campaign: campaignText().replace("[", "[[").replace("]", "]]") },
    withMechanism({ pairs_per_user: deep }),
    description({ group: deep }),
    description({ keys: deep }),
    description({ mechanism: deep }),
    { ...description(), campaign: "[".repeat(1e5) + "]".repeat(1e5) },
    { ...description(), campaign: `{"keys":${"[".repeat(1e5)}${"]".repeat(1e5)}}` },
    { ...description(), campaign: "x".repeat(60e6) },
    description({ campaign: { expires: "9999-12-31" } }),
    description({ campaign: { keys: many } }),
    description({ keys: Array.from({ length: 1e6 }, (_, at) => at) }),
    description({ mechanism: { id: "size-class", epsilon: "1", starts: Array.from({ length: 1e6 }, (_, at) => at) } }),
  ];
  for (const [at, one] of hostile.entries()) {
    const took = await fastest(() => refused(one, "bad-description", `case ${at}`));
    assert.ok(took < 50, `case ${at} took ${took} ms`);
  }
});

test("the largest honest questions are opened soon", async () => {
  const keys = Array.from({ length: 32_768 }, (_, key) => `${key}`);
  const largest = [
    { id: "bucket", epsilon: "1", pairs_per_user: 8192, buckets: 2 ** 20, occupied: 8192, tie: 1, cohorts: 2 ** 20 },
    { id: "pckv-ue", epsilon: "32", allocation: "tight", pairs_per_user: 8192 },
    {
      id: "privkv-broadcast",
      key_epsilon: "1",
      sign_epsilon: "1",
      levels: keys.slice(0, 8_192).map(() => "9223372036854775808"),
    },
    { id: "size-class", epsilon: "1", starts: Array.from({ length: 4096 }, (_, at) => at) },
  ];
  for (const mechanism of largest) {
    const asked = mechanism.levels ? keys.slice(0, 8_192) : keys;
    const one = description({ campaign: { keys: asked }, mechanism });
    const took = await fastest(() => readDescription(one));
    assert.ok(took < 50, `${mechanism.id} took ${took} ms`);
  }
});

test("an exponential is below, a logarithm above, and what goes out and back costs no more", () => {
  for (const [n, d] of [
    [1n, 1n],
    [1n, 3n],
    [1n, 10n ** 39n],
    [32n, 1n],
    [10n, 7n],
  ]) {
    const x = new Ratio(n, d);
    const E = expBelow(x);
    assert.ok(logAbove(E) * d <= n << 192n, `${n}/${d}`);
    assert.ok(Math.abs(Number((E.n << 60n) / E.d) / 2 ** 60 / Math.exp(Number(n) / Number(d)) - 1) < 1e-14);
  }
  assert.equal(logAbove(1n), 0n);
  assert.equal(toFloat(logAbove(2n)), 0.6931471805599454, "the float above ln 2");
});

test("floats are compared exactly", () => {
  for (const number of [1, 0.1, 5e-324, 1e-310, 32, 2 ** 60, 0.30000000000000004]) {
    const { n, d } = exactly(number);
    assert.equal(Number((n << 1200n) / d / (1n << 126n)) / 2 ** 1074 || number, number);
  }
  assert.ok(isWithin(1n << 192n, 1) && !isWithin((1n << 192n) + 1n, 1));
  assert.equal(unitsOf(1.5), 3n << 191n);
  assert.equal(unitsOf(5e-324), 1n, "rounded up");
  assert.equal(toFloat((1n << 192n) + 1n), 1 + 2 ** -52);
  assert.equal(toFloat(0n), 0);
});
