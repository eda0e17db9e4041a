/**
 * A hostile collector picks moves at random; whatever it does, what it sees tells two records apart by at most
 * e^epsilon of the campaign.
 *
 * The real device is driven along every branch: for each answer that it may give, words that produce the answer are fed
 * to it, and the answer's exact chance is known (tests/vectors/kernels.json). So the chance of every transcript (codes
 * and bytes of all calls) is computed exactly for each life of a record, a record that may change between calls, and
 * compared for each pair of lives. The collector may look: its next move depends on all that it has seen.
 *
 * In two worlds of three it asks in series: it opens waves in any order, with keys that came later, makes other series
 * of them, asks the same question alone, and the clock jumps. The device allows what one series costs, no more is told.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import { Device, expBelow, fromHex, Ratio, toHex } from "../keyveil.js";
import { exactly } from "../src/numerics/exact.js";
import { freshState } from "../src/ledgers/states.js";
import { description, QUIET } from "./support/campaigns.js";
import { load } from "./support/vectors.js";

const HISTORIES = Number(process.env.KEYVEIL_HISTORIES ?? 120);
const CALLS = 5;
const MOST_BRANCHES = 4_000;

const ratio = (text) => new Ratio(...String(text).split("/").map(BigInt));

/** A generator with a seed, by Steele, Lea and Flood; its numbers are below `n`. */
function seeded(seed) {
  let state = BigInt.asUintN(64, BigInt(seed));
  return (n) => {
    state = BigInt.asUintN(64, state + 0x9e3779b97f4a7c15n);
    let x = state;
    x = BigInt.asUintN(64, (x ^ (x >> 30n)) * 0xbf58476d1ce4e5b9n);
    x = BigInt.asUintN(64, (x ^ (x >> 27n)) * 0x94d049bb133111ebn);
    return Number((x ^ (x >> 31n)) % BigInt(n));
  };
}

/** Fowler, Noll and Vo's hash of a text. */
function seedOf(text) {
  const step = (sum, letter) => BigInt.asUintN(64, 1099511628211n * (sum ^ BigInt(letter.codePointAt(0))));
  return [...text].reduce(step, 14695981039346656037n);
}

const pickFrom = (draw, list) => list[draw(list.length)];

/** A ledger that can be copied: each branch has its own. */
class Fork {
  constructor(text = JSON.stringify(freshState("5e".repeat(32)))) {
    this.text = text;
  }

  async update(change) {
    const state = JSON.parse(this.text);
    const result = change(state);
    this.text = JSON.stringify(state);
    return result;
  }

  copy() {
    return new Fork(this.text);
  }
}

// --- kernels: for each record, every answer with words and its chance ---

const KEYS = ["a", "b", "c", "d"];

/** A kernel whose records hold keys by their codes' places among its names. */
function readKernel({ n_keys, keys, mechanism, records }) {
  const named = keys ?? [...new Set(records.flatMap(({ held }) => Object.keys(held)))].sort();
  const byCode = (held) =>
    JSON.stringify(
      Object.entries(held)
        .map(([name, value]) => [named.indexOf(name), value])
        .sort(),
    );
  return { n_keys, mechanism, answers: new Map(records.map(({ held, answers }) => [byCode(held), answers])) };
}

/** The answers to a round for what is held, if the kernel knows that record. */
function answersOf(kernel, codes, held) {
  const asked = codes.flatMap((code, place) => (KEYS[code] in held ? [[place, held[KEYS[code]]]] : []));
  return kernel.answers.get(JSON.stringify(asked.sort()));
}

// --- the collector ---

/** A move: a round to ask, honest or not, by all that was seen so far. */
function nextMove(draw, { kernels, nKeys, before }) {
  const kernel = pickFrom(
    draw,
    kernels.filter(({ n_keys }) => n_keys <= nKeys),
  );
  const codes = shuffled(draw, nKeys).slice(0, kernel.n_keys);
  const isWhole = kernel.n_keys === nKeys && draw(2);
  const fresh = {
    kernel,
    codes: isWhole ? codes.map((_, place) => place) : codes,
    fields: {
      number: 1 + draw(3),
      purpose: pickFrom(draw, ["collect", "check"]),
      group: pickFrom(draw, [
        ["0", "1"],
        ["0", "1/2"],
        ["1/2", "1"],
      ]),
      keys: isWhole ? null : codes,
      mechanism: kernel.mechanism,
    },
  };
  if (!before.length || draw(3) === 0) return fresh;
  const old = pickFrom(draw, before);
  const changes = [
    () => old,
    () => ({ ...old, fields: { ...old.fields, number: 1 + draw(4) } }),
    () => ({ ...old, fields: { ...old.fields, group: fresh.fields.group } }),
    () => ({ ...fresh, fields: { ...fresh.fields, number: old.fields.number } }),
    () => ({ ...old, fields: { ...old.fields, protocol: "auto/1" } }),
    () => {
      const order = [...old.codes].reverse();
      return { ...old, codes: order, fields: { ...old.fields, keys: order } };
    },
  ];
  return pickFrom(draw, changes)();
}

function shuffled(draw, n) {
  const list = Array.from({ length: n }, (_, at) => at);
  for (let at = n - 1; at > 0; at--) {
    const other = draw(at + 1);
    [list[at], list[other]] = [list[other], list[at]];
  }
  return list;
}

const DAY = 86_400_000;
// A small one that spends a wave's whole epsilon.
const OF_WAVES = ["grr"];
// Most often the series itself; others that look like it, or none.
const CHANGES = [{}, {}, {}, {}, { waves: 2 }, { start: "1970-01-02" }, { answers: 1 }, null, null];

/** The same move in a wave of a series, of one that looks like it, or of the series of a move before; and a time. */
function inSeries(draw, move, { answers, nKeys, before }) {
  const change = pickFrom(draw, CHANGES);
  const now = pickFrom(draw, [0, 0, 0, 0, 0, 0, DAY, 2 * DAY, 400 * DAY]);
  const own = draw(4) ? { ...move.fields, number: 1, group: ["0", "1"] } : move.fields;
  if (change === null) return { ...move, fields: own, now };
  const isLonger = draw(3) === 0;
  const said = { answers, every: "day", start: "1970-01-01", waves: 3, ...change };
  const old = before.filter(({ series }) => series);
  const { first_keys: _, ...again } = old.length && draw(2) ? pickFrom(draw, old).series : {};
  const series = { ...said, wave: 1 + draw(said.waves), ...again, ...(isLonger ? { first_keys: nKeys } : {}) };
  const fields = { ...own, keys: own.keys ?? (isLonger ? move.codes : null) };
  return { ...move, fields, now, isLonger, series: Object.fromEntries(Object.entries(series).sort()) };
}

// --- the device, along every branch ---

/** What one call says; null where it drew noise that was not given. */
async function call({ move, ledger, held, words, at, epsilon, most, nKeys, disables }) {
  let isDrawn = false;
  const entropy = () => {
    isDrawn = true;
    if (words === null) throw new Error("undecided");
    return fromHex(words);
  };
  const { series, isLonger, now = 0 } = move;
  const asked = { epsilon, keys: KEYS.slice(0, nKeys + Number(isLonger ?? false)), value_range: [-1, 1] };
  const campaign = series ? { ...asked, series } : asked;
  const device = await Device.open(description({ campaign, ...move.fields }), {
    ...QUIET,
    ledger,
    entropy,
    ids: () => new Uint8Array(16).fill(1 + at),
    now: () => now,
    campaignCap: most,
    lifetimeCap: most,
  });
  if (disables) {
    await device.disable();
    await device.enable();
  }
  const { code, bytes } = await device.report(held);
  return isDrawn && words === null ? null : `${code} ${bytes ? toHex(bytes) : ""}`;
}

/** Every transcript of a life with its exact chance; null where a kernel does not know a record, or for too many. */
async function transcripts(life, world) {
  let branches = [{ seen: [], before: [], ledger: new Fork(), chance: new Ratio(1n) }];
  for (let at = 0; at < CALLS; at++) {
    const next = [];
    for (const branch of branches) {
      const draw = seeded(seedOf(`${world.seed} ${branch.seen.join(";")}`));
      const plain = nextMove(draw, { ...world, before: branch.before });
      const move = world.answers ? inSeries(draw, plain, { ...world, before: branch.before }) : plain;
      const disables = draw(12) === 0;
      const before = [...branch.before, move];
      const asked = { move, held: life[at], at, disables, ...world };
      const ledger = branch.ledger.copy();
      const said = await call({ ...asked, ledger, words: null });
      if (said !== null) {
        next.push({ seen: [...branch.seen, said], before, ledger, chance: branch.chance });
        continue;
      }
      const answers = answersOf(move.kernel, move.codes, life[at]);
      if (!answers) return null;
      for (const { words, chance } of answers) {
        const own = branch.ledger.copy();
        const heard = await call({ ...asked, ledger: own, words });
        next.push({ seen: [...branch.seen, heard], before, ledger: own, chance: branch.chance.times(ratio(chance)) });
      }
      if (next.length > MOST_BRANCHES) return null;
    }
    branches = next;
  }
  const found = new Map();
  for (const { seen, chance } of branches) {
    const key = seen.join("\n");
    found.set(key, found.has(key) ? found.get(key).plus(chance) : chance);
  }
  return found;
}

/** Lives of a record: one that stays, and one that changes with every call. */
function livesOf(draw, nKeys, kernels) {
  const known = kernels.filter(({ n_keys }) => n_keys === nKeys).flatMap(({ answers }) => [...answers.keys()]);
  const records = [...new Set(known)].map((text) =>
    Object.fromEntries(JSON.parse(text).map(([code, value]) => [KEYS[code], value])),
  );
  const still = [pickFrom(draw, records), pickFrom(draw, records), {}].map((held) => Array(CALLS).fill(held));
  const changing = Array.from({ length: CALLS }, () => pickFrom(draw, records));
  return [...still, changing];
}

const NAME = `${HISTORIES} histories with a hostile collector: no transcript tells two lives apart beyond e^epsilon`;

test(NAME, async (context) => {
  // Prefixes are asked of open keys alone; what a collector may try with those is in the histories.
  const listed = load("kernels.json").kernels.filter(({ mechanism }) => mechanism.id !== "prefix-bucket");
  const kernels = listed.map(readKernel);
  const sizes = [...new Set(kernels.map(({ n_keys }) => n_keys))];
  let [worst, counted, skipped, seen] = [0, 0, 0, 0];
  for (let seed = 0; counted < HISTORIES && seed < 20 * HISTORIES; seed++) {
    const draw = seeded(seed);
    const nKeys = pickFrom(draw, sizes);
    const answers = seed % 3 ? 1 + draw(2) : 0;
    const epsilon = answers ? 1 : pickFrom(draw, [0.5, 1, 2, 3]);
    // Alone, the campaign's promise holds, whatever the device allows.
    const chosen = kernels.filter(({ mechanism }) => !answers || OF_WAVES.includes(mechanism.id));
    const world = { seed, nKeys, kernels: chosen, epsilon, answers, most: answers ? answers * epsilon : 99 };
    const laws = [];
    for (const life of livesOf(draw, nKeys, kernels)) {
      const law = await transcripts(life, world);
      if (law) laws.push(law);
    }
    if (laws.length < 2) {
      skipped++;
      continue;
    }
    counted++;
    for (const law of laws) {
      seen += law.size;
      const all = [...law.values()].reduce((sum, chance) => sum.plus(chance), new Ratio(0n));
      assert.ok(all.n === all.d, `history ${seed}: the chances of all transcripts sum to one`);
    }
    worst = Math.max(worst, largestRatio(laws, Math.max(1, answers) * epsilon, seed));
  }
  assert.equal(counted, HISTORIES);
  context.diagnostic(
    `${counted} histories (${skipped} left out), ${seen} transcripts, largest ratio over e^epsilon ${worst.toFixed(6)}`,
  );
});

/** The largest ratio of two lives' chances of one transcript, over e^epsilon; more than 1 is a failure, exactly. */
function largestRatio(laws, epsilon, seed) {
  const bound = expBelow(exactly(epsilon));
  let worst = 0;
  for (const one of laws) {
    for (const other of laws) {
      for (const [transcript, chance] of one) {
        const theirs = other.get(transcript) ?? new Ratio(0n);
        const most = bound.times(theirs);
        assert.ok(!most.isBelow(chance), `history ${seed}: ${transcript}`);
        worst = Math.max(worst, Number((chance.n * most.d * 10n ** 9n) / (chance.d * most.n)) / 1e9);
      }
    }
  }
  return worst;
}
