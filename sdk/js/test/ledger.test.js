/** Ledgers: in a file, between processes, killed and paused at any moment, and from the version before. */
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import fsPromises from "node:fs/promises";
import { syncBuiltinESMExports } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { Device, FileLedger, MemoryLedger, readDescription } from "../node.js";
import { agreeing, description, QUIET, stateOf, unitsIn, UNREADABLE } from "./support/campaigns.js";

const KILLS = Number(process.env.KEYVEIL_KILLS ?? 20);
const module = new URL("../node.js", import.meta.url).href;
const support = new URL("./support/campaigns.js", import.meta.url).href;
const held = { maps: 12, chess: 50 };
const code = async (promise) => (await promise).code;
const newPath = () => join(mkdtempSync(join(tmpdir(), "keyveil-")), "ledger.json");
const stateFile = (path) => join(`${path}.d`, "free", "state.json");
const RICH = { ...QUIET, campaignCap: 1e9, lifetimeCap: 1e9 };
const numbered = (number) =>
  description({ number, campaign: { epsilon: 32 }, mechanism: { id: "kvue", epsilon: "1/100" } });

const children = new Set();
after(() => children.forEach((child) => child.kill("SIGKILL")));

/** A process that runs a script, with what it said so far. */
function start(script, ...values) {
  const child = spawn(process.execPath, ["--input-type=module", "-e", script, ...values]);
  children.add(child);
  const run = { child, said: "", complaint: "" };
  child.stdout.on("data", (data) => (run.said += data));
  child.stderr.on("data", (data) => (run.complaint += data));
  run.ended = new Promise((done) => child.on("close", (status, signal) => done({ status, signal })));
  return run;
}

async function until(isSo) {
  for (let tries = 0; !isSo(); tries++) {
    if (tries > 2_000) throw new Error("it did not come to pass");
    await new Promise((wake) => setTimeout(wake, 5));
  }
}

test("a ledger in a file survives, and a corrupt one stops all reports", async () => {
  const path = newPath();
  const one = await agreeing(description(), { ledger: new FileLedger(path) });
  const first = await one.report(held);
  const two = await Device.open(description(), { ...QUIET, ledger: new FileLedger(path) });
  assert.deepEqual((await two.report(UNREADABLE)).bytes, first.bytes);
  const text = readFileSync(stateFile(path), "utf8");
  const changes = [
    ['"units":"', '"units":"-'],
    ['"version":4', '"version":5'],
    ['"given"', '"perhaps"'],
  ];
  const broken = [text.slice(0, 40), "null", "{}", ...changes.map(([was, is]) => text.replace(was, is))];
  for (const each of broken) {
    writeFileSync(stateFile(path), each);
    assert.equal(await code(two.report(UNREADABLE)), "ledger-corrupt", each.slice(0, 60));
    assert.equal(await code(two.enable()), "ledger-corrupt");
  }
});

test("devices that share a ledger at once lose no debit", async () => {
  const path = newPath();
  const ledgers = Array.from({ length: 4 }, () => new FileLedger(path));
  const answer = async (number) =>
    code((await Device.open(numbered(number), { ...RICH, ledger: ledgers[number % 4] })).report(held));
  const codes = await Promise.all(Array.from({ length: 40 }, (_, at) => answer(1 + at)));
  assert.ok(
    codes.every((each) => each === "done"),
    codes.join(),
  );
  const { price } = await readDescription(numbered(1));
  assert.equal(unitsIn(await stateOf(ledgers[0])), 40n * price);
  assert.deepEqual(readdirSync(`${path}.d`), ["free"]);
  assert.deepEqual(readdirSync(join(`${path}.d`, "free")), ["state.json"]);
});

test("a folder that is not there, or cannot be written, is a refusal", async () => {
  const device = await Device.open(description(), { ...QUIET, ledger: new FileLedger("/nowhere/at/all/ledger.json") });
  assert.equal(await code(device.enable()), "ledger-unwritable");
  const file = newPath();
  writeFileSync(file, "a file, no folder");
  const inside = await Device.open(description(), { ...QUIET, ledger: new FileLedger(join(file, "ledger.json")) });
  assert.ok(["ledger-unwritable", "ledger-corrupt"].includes(await code(inside.enable())));
});

const LOOP = `
  import { Device, FileLedger } from ${JSON.stringify(module)};
  import { description } from ${JSON.stringify(support)};
  const [path, begin] = process.argv.slice(1);
  const options = { campaignCap: 1e9, lifetimeCap: 1e9, environment: {}, ledger: new FileLedger(path) };
  for (let number = Number(begin); ; number++) {
    const round = description({ number, campaign: { epsilon: 32 }, mechanism: { id: "kvue", epsilon: "1/100" } });
    const outcome = await (await Device.open(round, options)).report({ maps: number % 60 });
    if (!outcome.ok) throw new Error(outcome.code);
    process.stdout.write(number + " " + Buffer.from(outcome.bytes).toString("hex") + "\\n");
  }
`;

test(`${KILLS} kills: nothing that was said is unknown to the ledger`, async () => {
  const path = newPath();
  const said = new Map();
  for (let kill = 0; kill < KILLS; kill++) {
    const run = start(LOOP, path, String(1 + said.size));
    await until(() => run.said.includes("\n") || run.complaint);
    await new Promise((wake) => setTimeout(wake, Math.random() * 60));
    run.child.kill("SIGKILL");
    const { signal } = await run.ended;
    assert.equal(signal, "SIGKILL", run.complaint);
    for (const line of run.said.split("\n").slice(0, -1)) said.set(...line.split(" "));
    const { answers } = await stateOf(new FileLedger(path));
    const known = new Map(answers.map(({ round, bytes }) => [String(round), bytes]));
    for (const [number, bytes] of said) assert.equal(known.get(number), bytes);
    assert.ok(answers.length <= said.size + 1 + kill);
  }
  assert.ok(said.size > KILLS);
});

/** Stops itself inside its change, where it holds the ledger and has read the state. */
const PAUSED = `
  import { FileLedger } from ${JSON.stringify(module)};
  const ledger = new FileLedger(process.argv[1]);
  let runs = 0;
  await ledger.update((state) => {
    if (++runs === 1) process.kill(process.pid, "SIGSTOP");
    const rest = { pin: null, at: 0, bytes: null, sealed: null };
    state.answers.push({ campaign: "b".repeat(64), round: 1, units: "1000", ...rest });
  });
  process.stdout.write("runs " + runs + "\\n");
`;

test("A5: an owner that is paused while it holds the ledger neither loses nor undoes another's debit", async () => {
  const path = newPath();
  const ledger = new FileLedger(path);
  await ledger.update((state) => void (state.consent = "given"));
  const run = start(PAUSED, path);
  await until(
    () => readdirSync(`${path}.d`).some((name) => name.startsWith(`held-${run.child.pid}-`)) || run.complaint,
  );
  await new Promise((wake) => setTimeout(wake, 300));
  const started = performance.now();
  const device = await Device.open(description(), { ...QUIET, ledger });
  assert.equal(await code(device.report(held)), "done");
  assert.equal(await code(device.disable()), "done");
  assert.ok(performance.now() - started < 4_000, "a paused owner delays, it does not stop");
  run.child.kill("SIGCONT");
  assert.deepEqual([await run.ended, run.said], [{ status: 0, signal: null }, "runs 2\n"], run.complaint);
  const state = await stateOf(ledger);
  assert.deepEqual(
    state.answers.map(({ units }) => units),
    [String((await readDescription(description())).price), "1000"],
  );
  assert.equal(state.consent, "withdrawn");
});

test("A5: an owner that is overtaken between its draft and its rename changes nothing", async () => {
  const path = newPath();
  await new FileLedger(path).update((state) => void (state.latest = 5));
  const { rename } = fsPromises;
  let overtaken = 0;
  fsPromises.rename = async (from, to) => {
    // Before the first draft becomes the state, another process takes the folder away and leaves a newer state.
    if (String(from).includes("/new-") && !overtaken++) {
      const stolen = `${path}.d/held-1-0-ff`;
      await rename(join(from, ".."), stolen);
      const state = JSON.parse(readFileSync(`${stolen}/state.json`, "utf8"));
      writeFileSync(`${stolen}/state.json`, JSON.stringify({ ...state, consent: "withdrawn" }));
      await rename(stolen, `${path}.d/free`);
    }
    return rename(from, to);
  };
  syncBuiltinESMExports();
  try {
    let runs = 0;
    await new FileLedger(path).update((state) => {
      runs++;
      state.latest += 1;
    });
    assert.equal(runs, 2);
  } finally {
    fsPromises.rename = rename;
    syncBuiltinESMExports();
  }
  const { consent, latest } = await stateOf(new FileLedger(path));
  assert.deepEqual([consent, latest], ["withdrawn", 6]);
  assert.deepEqual(readdirSync(join(`${path}.d`, "free")), ["state.json"], "no draft is left");
});

test("A5: the folder is flushed after the rename", async () => {
  const path = newPath();
  const ledger = new FileLedger(path);
  await ledger.update(() => undefined);
  const { open, rename } = fsPromises;
  const steps = [];
  fsPromises.open = async (name, ...rest) => {
    const file = await open(name, ...rest);
    const kind = (await file.stat()).isDirectory() ? "folder" : "draft";
    const sync = file.sync.bind(file);
    file.sync = () => steps.push(`flush ${kind}`) && sync();
    return file;
  };
  fsPromises.rename = async (from, to) => {
    if (to.endsWith("state.json")) steps.push("rename");
    return rename(from, to);
  };
  syncBuiltinESMExports();
  try {
    await ledger.update(() => undefined);
  } finally {
    Object.assign(fsPromises, { open, rename });
    syncBuiltinESMExports();
  }
  assert.deepEqual(steps, ["flush draft", "rename", "flush folder"]);
});

test("A5: the latest time outlives the process, also of calls that were refused", async () => {
  const path = newPath();
  const one = description({ campaign: { expires: "2030-01-31" } });
  const at = async (time) => {
    const options = { ...QUIET, ledger: new FileLedger(path), now: () => Date.parse(time) };
    return code((await Device.open(one, options)).report(UNREADABLE));
  };
  assert.equal(await at("2031-01-01"), "expired");
  assert.equal(await at("2029-01-01"), "expired");
});

// --- version 1 ---

async function oldState({ enabled = true, spent = 1.0000000000000002 } = {}) {
  const { id } = await readDescription(description());
  const other = "c".repeat(64);
  const report = `01${id.slice(0, 32)}0100${"ab".repeat(16)}09`;
  return {
    version: 1,
    enabled,
    secret: "5e".repeat(32),
    spent: { [id]: spent, [other]: 3 },
    memo: { "a hash": { fingerprint: "ff", payload: "09", report, tag: id.slice(0, 32), round: 1 } },
    queue: [{ campaign: id, report }],
    dropped: 1,
    refused: 2,
    tries: 0,
    notBefore: 0,
  };
}

test("a ledger of version 1 is taken over: what was spent stays spent, what was said is repeated", async () => {
  const path = newPath();
  const old = await oldState();
  writeFileSync(path, JSON.stringify(old));
  const device = await Device.open(description(), { ...QUIET, ledger: new FileLedger(path) });
  const { spent, spentInAll, consent, queued, answers } = await device.status();
  assert.deepEqual(
    [spent, spentInAll, consent, queued, answers],
    [1.0000000000000002, 4.000000000000001, "given", 1, 1],
  );
  const exact = (await stateOf(new FileLedger(path))).answers.map(({ units }) => BigInt(units));
  assert.equal(exact[0], (1n << 192n) + (1n << 140n), "to the last unit");
  // Whatever the description: there is no pin.
  for (const change of [{}, { keys: [1] }]) {
    const again = await Device.open(description(change), { ...QUIET, ledger: new FileLedger(path) });
    assert.equal(Buffer.from((await again.report(UNREADABLE)).bytes).toString("hex"), old.queue[0].report);
  }
  const second = await Device.open(description({ number: 2 }), { ...QUIET, ledger: new FileLedger(path) });
  assert.equal(await code(second.report(UNREADABLE)), "over-promise");
  const third = await Device.open(description({ campaign: { name: "new" } }), {
    ...QUIET,
    ledger: new FileLedger(path),
    lifetimeCap: 5,
  });
  assert.equal(await code(third.report(UNREADABLE)), "over-lifetime-cap", "rounded up, never down");
  assert.equal((await stateOf(new FileLedger(path))).secret, old.secret);
  assert.notEqual(JSON.parse(readFileSync(path, "utf8")).version, 1, "a device of the version before stops");
});

test("a wiped ledger of version 1 answers no round twice", async () => {
  const path = newPath();
  writeFileSync(path, JSON.stringify({ ...(await oldState({ enabled: false })), memo: {}, queue: [] }));
  const device = await Device.open(description(), { ...QUIET, ledger: new FileLedger(path) });
  assert.equal(await code(device.report(UNREADABLE)), "disabled");
  await device.enable();
  assert.equal(await code(device.report(UNREADABLE)), "over-promise");
});

test("a ledger of version 1 that cannot be believed is not taken over", async () => {
  const spent = (epsilon) => ({ spent: { ["c".repeat(64)]: epsilon } });
  for (const change of [spent(-1), spent(null), { secret: null }, { queue: 3 }, { memo: null }]) {
    const path = newPath();
    writeFileSync(path, JSON.stringify({ ...(await oldState()), ...change }));
    const device = await Device.open(description(), { ...QUIET, ledger: new FileLedger(path) });
    assert.equal(await code(device.enable()), "ledger-corrupt", JSON.stringify(change));
    assert.ok(!existsSync(`${path}.d`));
  }
});

test("a ledger in memory takes a secret, for tests", async () => {
  const ledger = new MemoryLedger({ secret: "07".repeat(32) });
  assert.equal((await stateOf(ledger)).secret, "07".repeat(32));
  assert.notEqual((await stateOf(new MemoryLedger())).secret, (await stateOf(new MemoryLedger())).secret);
});

// --- version 2 ---

test("a ledger of version 2 is taken over: it knew of no relay, so what was sent went directly", async () => {
  const { id } = await readDescription(description());
  const [pin, bytes] = ["ab".repeat(32), `01${id.slice(0, 32)}0100${"cd".repeat(16)}09`];
  const counts = { failures: 1, notBefore: 5, sent: 2, refused: 3, dropped: 4 };
  const [other, unsent] = ["c".repeat(64), { failures: 0, notBefore: 0, sent: 0, refused: 0, dropped: 1 }];
  const old = {
    version: 2,
    secret: "5e".repeat(32),
    latest: 7,
    consent: "given",
    answers: [
      { campaign: id, round: 1, pin, units: "12", bytes },
      { campaign: id, round: 2, pin, units: "13", bytes: null },
    ],
    queue: [{ campaign: id, report: bytes }],
    routes: { [id]: counts, [other]: unsent },
  };
  const path = newPath();
  mkdirSync(join(`${path}.d`, "free"), { recursive: true });
  writeFileSync(stateFile(path), JSON.stringify(old));
  const wanted = {
    ...old,
    version: 4,
    answers: old.answers.map((answer) => ({ ...answer, at: null, sealed: null })),
    series: {},
    routes: { [id]: { ...counts, way: "direct" }, [other]: { ...unsent, way: null } },
  };
  assert.deepEqual(await stateOf(new FileLedger(path)), wanted);
  assert.deepEqual(JSON.parse(readFileSync(stateFile(path), "utf8")), wanted, "and written so");
  // What is no ledger of any version stops all reports, the note that version 1 left for older devices too.
  const wrong = [
    { ...old, routes: null },
    { version: 2, folder: "x" },
    { ...wanted, answers: [{ ...wanted.answers[1], sealed: "ab" }] },
    { ...wanted, answers: [{ ...wanted.answers[0], sealed: "no bytes" }] },
    { ...wanted, answers: old.answers },
    { ...wanted, routes: { [id]: { ...counts, way: "by post" } } },
    { ...wanted, routes: old.routes },
    { ...wanted, answers: [{ ...wanted.answers[0], at: "1" }] },
    { ...wanted, series: [] },
    { ...wanted, series: { [id]: { units: 12, waves: {} } } },
    { ...wanted, series: { [id]: { units: "-12", waves: {} } } },
    { ...wanted, series: { [id]: { units: "12", waves: { 0: id } } } },
    { ...wanted, series: { [id]: { units: "12", waves: { 1: "no id" } } } },
    { ...wanted, series: { one: { units: "12", waves: { 1: id } } } },
  ];
  for (const state of wrong) {
    writeFileSync(stateFile(path), JSON.stringify(state));
    await assert.rejects(stateOf(new FileLedger(path)), { code: "ledger-corrupt" }, JSON.stringify(state));
  }
});
