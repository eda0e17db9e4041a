/** Consent, the queue and uploads over a real socket: statuses, refusals, tokens, deadlines. */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createServer } from "node:http";
import { after, test } from "node:test";
import {
  asksNotToTrack,
  checkReport,
  Device,
  issuedIds,
  MemoryLedger,
  readDescription,
  readFrames,
  SENTENCES,
  toHex,
} from "../keyveil.js";
import { nonceOf } from "../src/client/vote.js";
import { agreeing, description, QUIET, UNREADABLE } from "./support/campaigns.js";

const held = { maps: 12, chess: 50 };
const code = async (promise) => (await promise).code;
const RICH = { campaignCap: 1e6, lifetimeCap: 1e6 };
const numbered = (number) =>
  description({ number, campaign: { epsilon: 32 }, mechanism: { id: "kvue", epsilon: "1/100" } });

const servers = [];
after(() => servers.forEach((server) => server.closeAllConnections() ?? server.close()));

async function serve(handler) {
  const server = createServer(handler);
  servers.push(server);
  await new Promise((done) => server.listen(0, "127.0.0.1", done));
  return `http://127.0.0.1:${server.address().port}`;
}

/** A server that answers each upload as `answer(reports)` says: a list of statuses, or [status, headers]. */
async function collector(answer) {
  const met = [];
  const url = await serve(async (request, response) => {
    const parts = [];
    for await (const part of request) parts.push(part);
    const reports = readFrames(new Uint8Array(Buffer.concat(parts))).map(toHex);
    met.push({ reports, token: request.headers.authorization, path: request.url });
    const said = answer(reports);
    if (typeof said[0] !== "number") return response.end(JSON.stringify({ reports: said }));
    response.writeHead(said[0], said[1]);
    return response.end("{}");
  });
  return { met, url };
}

const accepting = (reports) => reports.map(() => "accepted");

/** A device that has the answers to so many rounds in its queue. */
async function loaded(url, reports, { ledger = new MemoryLedger(), ...options } = {}) {
  let device;
  for (let number = 1; number <= reports; number++) {
    device = await agreeing(numbered(number), { ledger, ...RICH, url, ...options });
    assert.equal(await code(device.submit({ maps: number })), "done");
  }
  return device;
}

test("nothing is queued before the person agrees, and nothing waits after they no longer do", async () => {
  const { met, url } = await collector(accepting);
  const ledger = new MemoryLedger();
  const device = await Device.open(description(), { ledger, ...QUIET, url });
  assert.equal(await code(device.submit(UNREADABLE)), "not-enabled");
  assert.equal(await code(device.upload()), "not-enabled");
  assert.equal(await code(device.report(held)), "done", "bytes for the caller need no yes");
  assert.equal((await device.status()).queued, 0);
  await device.enable();
  assert.equal(await code(device.submit(UNREADABLE)), "done", "the kept answer is queued");
  await device.disable();
  assert.equal(await code(device.submit(UNREADABLE)), "disabled");
  assert.equal(await code(device.upload()), "disabled");
  await device.enable();
  assert.deepEqual(await device.upload(), { ok: true, code: "done", sent: 0, refused: [] });
  assert.equal(met.length, 0);
  assert.equal((await device.status()).spent, 1, "what was spent stays spent");
});

test("a setting against tracking is honoured", async () => {
  for (const environment of [
    { navigator: { globalPrivacyControl: true } },
    { navigator: { doNotTrack: "1" } },
    { process: { env: { DO_NOT_TRACK: "1" } } },
  ]) {
    assert.ok(asksNotToTrack(environment));
    const device = await agreeing(description(), { environment, url: "https://c.example" });
    const calls = [device.report(UNREADABLE), device.submit(UNREADABLE), device.upload()];
    for (const call of calls) assert.equal(await code(call), "do-not-track");
    assert.equal((await device.status()).consent, "do not track");
  }
  assert.ok(!asksNotToTrack({ navigator: { doNotTrack: "0" }, process: { env: { DO_NOT_TRACK: " False " } } }));
});

test("every refusal says its code's sentence", async () => {
  const device = await Device.open(description(), { ledger: new MemoryLedger(), ...QUIET });
  const reason = SENTENCES["not-enabled"];
  assert.deepEqual(await device.submit(held), { ok: false, code: "not-enabled", reason, detail: "" });
  assert.deepEqual(await device.upload(), {
    ok: false,
    code: "no-collector",
    reason: SENTENCES["no-collector"],
    detail: "",
    sent: 0,
    refused: [],
  });
  await assert.rejects(Device.open({}), { code: "no-ledger" });
  await assert.rejects(Device.open(null, { ledger: new MemoryLedger() }), { message: SENTENCES["bad-description"] });
  for (const cap of [0, -1, Number.NaN, Infinity, "4", null]) {
    await assert.rejects(Device.open(description(), { ledger: new MemoryLedger(), campaignCap: cap }), TypeError);
  }
});

test("reports travel by https, or to this machine", async () => {
  const open = (url) => Device.open(description(), { ledger: new MemoryLedger(), url });
  const unsafe = ["http://c.example", "http://127.example.com", "ftp://localhost"];
  for (const url of unsafe) await assert.rejects(open(url), { code: "https-required" });
  await assert.rejects(open("no address"), { code: "no-collector" });
  for (const url of ["https://c.example", "http://localhost:8000", "http://127.0.0.1:8000", "http://[::1]:8000"]) {
    await open(url);
  }
});

test("batches are uploaded in frames, once, to the campaign's address", async () => {
  const { met, url } = await collector(accepting);
  const device = await loaded(`${url}/`, 5, { batch: 2 });
  assert.deepEqual(await device.upload(), { ok: true, code: "done", sent: 5, refused: [] });
  assert.deepEqual(
    met.map(({ reports }) => reports.length),
    [2, 2, 1],
  );
  assert.equal(met[0].path, `/v1/campaigns/${device.id}/reports`);
  assert.equal(new Set(met.flatMap(({ reports }) => reports)).size, 5);
  assert.deepEqual(await device.upload(), { ok: true, code: "done", sent: 0, refused: [] });
  const { queued, sent } = await device.status();
  assert.deepEqual([queued, sent], [0, 5]);
});

test("each report is settled by its own status, in order", async () => {
  const { met, url } = await collector(() => [
    "accepted",
    "duplicate",
    "round-closed",
    "wrong-round",
    "a code of tomorrow",
  ]);
  const device = await loaded(url, 5);
  assert.deepEqual(await device.upload(), {
    ok: true,
    code: "done",
    sent: 2,
    refused: [
      { code: "round-closed", reason: "the round it answers is over" },
      { code: "wrong-round", reason: "it answers a round that has not been opened" },
      { code: "a code of tomorrow", reason: "the collector refused it" },
    ],
  });
  const { queued, refused } = await device.status();
  assert.deepEqual([queued, refused], [0, 3]);
  assert.equal(await code(device.upload()), "done");
  assert.equal(met.length, 1, "what has a status is never sent again");
});

test("an answer without a status for each report settles nothing", async () => {
  for (const said of [[], ["accepted"], ["accepted", "accepted", "accepted"], ["accepted", 200]]) {
    const { url } = await collector(() => said);
    const device = await loaded(url, 2);
    assert.equal(await code(device.upload()), "waiting");
    const { queued, refused } = await device.status();
    assert.deepEqual([queued, refused], [2, 0]);
  }
});

test("a token goes into the header, and without one there is none", async () => {
  const { met, url } = await collector(accepting);
  await (await loaded(url, 1, { token: "kv-0123-abc" })).upload();
  await (await loaded(url, 1)).upload();
  assert.deepEqual(
    met.map(({ token }) => token),
    ["Bearer kv-0123-abc", undefined],
  );
  for (const token of ["", "two words", "line\nbreak", "\u00e9"]) {
    await assert.rejects(loaded(url, 1, { token }), { code: "bad-token" });
  }
});

test("a token that is not taken leaves the reports waiting, and says so", async () => {
  for (const status of [401, 403]) {
    const { met, url } = await collector((reports) => (met.length > 1 ? accepting(reports) : [status, {}]));
    let clock = 1_000_000;
    const ledger = new MemoryLedger();
    const device = await loaded(url, 2, { ledger, now: () => clock });
    assert.equal(await code(device.upload()), "token-refused");
    assert.equal((await device.status()).queued, 2);
    clock += 3_600_000;
    const again = await Device.open(numbered(2), { ledger, ...QUIET, url, token: "kv-new", now: () => clock });
    assert.deepEqual(await again.upload(), { ok: true, code: "done", sent: 2, refused: [] });
  }
});

test("failures wait longer each time, and Retry-After is honoured", async () => {
  let clock = 1_000_000;
  const answers = [
    [503, {}],
    [503, {}],
    [429, { "retry-after": "120" }],
  ];
  const { met, url } = await collector((reports) => answers.shift() ?? accepting(reports));
  const device = await loaded(url, 1, { now: () => clock });
  const expect = async (wanted, requests) => {
    assert.equal(await code(device.upload()), wanted);
    assert.equal(met.length, requests);
  };
  await expect("waiting", 1);
  await expect("waiting", 1);
  clock += 1_000;
  await expect("waiting", 2);
  clock += 2_000;
  await expect("waiting", 3);
  clock += 119_000;
  await expect("waiting", 3);
  clock += 1_001;
  await expect("done", 4);
  assert.equal(new Set(met.flatMap(({ reports }) => reports)).size, 1, "the same bytes every time");
});

test("a clock set back makes nobody wait for more than a day", async () => {
  let clock = Date.parse("2030-01-01");
  const { met, url } = await collector((reports) => (met.length === 1 ? [503, {}] : accepting(reports)));
  const device = await loaded(url, 1, { now: () => clock });
  assert.equal(await code(device.upload()), "waiting");
  clock = Date.parse("2020-01-01");
  assert.equal(await code(device.upload()), "done");
});

test("a batch that is too large is sent in halves; one report that is, is refused", async () => {
  const { met, url } = await collector((reports) => (reports.length > 2 ? [413, {}] : accepting(reports)));
  assert.equal((await (await loaded(url, 7)).upload()).sent, 7);
  assert.deepEqual(
    met.map(({ reports }) => reports.length),
    [7, 3, 1, 2, 4, 2, 2],
  );
  const strict = await collector(() => [413, {}]);
  const { sent, refused } = await (await loaded(strict.url, 2)).upload();
  assert.deepEqual([sent, refused.map((one) => one.code)], [0, ["batch-refused", "batch-refused"]]);
});

test("the queue is bounded, and drops are counted", async () => {
  const device = await loaded("https://c.example", 8, { mostQueued: 3 });
  const { queued, dropped } = await device.status();
  assert.deepEqual([queued, dropped], [3, 5]);
});

// --- hostile collectors ---

/** Sends a byte of a good answer every so often, for ever. */
const dripping = (_, response) => {
  response.writeHead(200, { "content-type": "application/json" });
  const timer = setInterval(() => response.write(" "), 50);
  response.on("close", () => clearInterval(timer));
};

const timed = async (work) => {
  const started = performance.now();
  const result = await work();
  return [result, performance.now() - started];
};

test("A3: no collector makes an upload last longer than its deadline", async () => {
  const silent = () => undefined;
  const afterHeaders = (_, response) => response.writeHead(200).flushHeaders();
  const halves = (_, response) => setTimeout(() => response.writeHead(413).end(), 300);
  for (const handler of [dripping, silent, afterHeaders, halves]) {
    const device = await loaded(await serve(handler), 4);
    const [outcome, took] = await timed(() => device.upload(400));
    assert.equal(outcome.code, "waiting");
    // Without one deadline for all of them, the halves alone would take 2,100 ms, the others would never end.
    assert.ok(took < 1500, `took ${took} ms`);
    assert.equal((await device.status()).queued, 4);
  }
  const deaf = await loaded("https://c.example", 1, { fetch: () => new Promise(() => undefined) });
  const [outcome, took] = await timed(() => deaf.upload(200));
  assert.ok(outcome.code === "waiting" && took < 3000);
});

test("A3: while an id or an upload is waited for, disable() works at once, and the answer is not made", async () => {
  const url = await serve(dripping);
  const ids = issuedIds({ url, campaign: "c", token: "t", timeout: 2000 });
  const ledger = new MemoryLedger();
  const device = await agreeing(description(), { ledger, url, ids });
  const submitting = device.submit(UNREADABLE);
  await new Promise((wake) => setTimeout(wake, 100));
  const [disabled, took] = await timed(() => device.disable());
  assert.ok(disabled.ok && took < 1000, `took ${took} ms`);
  assert.equal(await code(submitting), "no-id");

  // An id that comes after the person said no is not used.
  let hand;
  const late = await agreeing(description(), { ids: () => new Promise((done) => (hand = done)) });
  const waiting = late.submit(UNREADABLE);
  await new Promise((wake) => setTimeout(wake, 50));
  await late.disable();
  hand(new Uint8Array(16));
  assert.equal(await code(waiting), "disabled");

  const sending = await loaded(url, 1);
  const uploading = sending.upload(500);
  await new Promise((wake) => setTimeout(wake, 100));
  assert.ok((await timed(() => sending.disable()))[1] < 100);
  assert.equal(await code(uploading), "waiting");
  assert.equal((await sending.status()).queued, 0);
});

test("A4: a large answer is not read to its end", async () => {
  let written = 0;
  const flooding = (_, response) => {
    response.writeHead(200);
    const block = Buffer.alloc(1 << 20, " ");
    const more = () => {
      while (written < 60 << 20 && !response.destroyed) {
        written += block.length;
        if (!response.write(block)) return response.once("drain", more);
      }
      return response.end("{}");
    };
    more();
  };
  const url = await serve(flooding);
  assert.equal(await code((await loaded(url, 1)).upload()), "waiting");
  const connecting = Device.connect(`${url}/v1/campaigns/${"a".repeat(64)}`, { ledger: new MemoryLedger() });
  await assert.rejects(connecting, { code: "bad-description" });
  assert.ok(written < 30 << 20, `${written} bytes were written`);
  const deep = await serve((_, response) => response.end(`${"[".repeat(30_000)}${"]".repeat(30_000)}`));
  assert.equal(await code((await loaded(deep, 1)).upload()), "waiting");
});

test("redirects are not followed", async () => {
  const { met, url } = await collector(accepting);
  const away = await serve((_, response) => response.writeHead(307, { location: url }).end());
  assert.equal(await code((await loaded(away, 1)).upload()), "waiting");
  assert.equal(met.length, 0);
});

test("an id is asked for once, only for an answer that is new, and not for one that will be refused", async () => {
  let asked = 0;
  const ids = async () => new Uint8Array(16).fill(++asked);
  const ledger = new MemoryLedger();
  const open = (change, options = {}) => Device.open(description(change), { ledger, ...QUIET, ids, ...options });
  assert.equal(await code((await open({ group: ["0", `1/${"9".repeat(30)}`] })).report(UNREADABLE)), "other-group");
  assert.equal(await code((await open({}, { campaignCap: 0.1 })).report(UNREADABLE)), "over-campaign-cap");
  assert.equal(asked, 0);
  const first = await (await open({})).report(held);
  assert.equal(toHex(first.bytes.subarray(19, 35)), "01".repeat(16));
  await (await open({})).report(UNREADABLE);
  assert.equal(await code((await open({ keys: [0] })).report(UNREADABLE)), "pinned");
  assert.equal(asked, 1);
  for (const wrong of [
    () => null,
    () => new Uint8Array(3),
    () => "00".repeat(16),
    () => Promise.reject(new Error("no")),
  ]) {
    assert.equal(
      await code((await open({ campaign: { name: "another" } }, { ids: wrong })).report(UNREADABLE)),
      "no-id",
    );
  }
});

test("where the campaign issues ids, each is asked for with a nonce of the ledger, always the same", async () => {
  const issuing = (name) =>
    description({
      campaign: { name, ids: "issued", mechanism: "kvue" },
      mechanism: { id: "kvue", epsilon: "1", ids: "issued" },
    });
  const asked = [];
  const url = await serve((request, response) => {
    asked.push(request.url);
    const nonce = new URL(request.url, "http://x").searchParams.get("nonce");
    return asked.length === 1 ? response.writeHead(503).end() : response.end(JSON.stringify({ ids: [nonce] }));
  });
  const secret = "5a".repeat(32);
  const ledger = new MemoryLedger({ secret });
  const device = await agreeing(issuing("one"), { ledger, url });
  assert.equal(await code(device.report(UNREADABLE)), "no-id");
  const { bytes } = await device.report(held);
  const nonce = await nonceOf(secret, device.id, 1);
  assert.equal(toHex(bytes.subarray(19, 35)), nonce);
  await checkReport(await readDescription(issuing("one")), bytes);
  assert.deepEqual(asked, Array(2).fill(`/v1/campaigns/${device.id}/ids?count=1&nonce=${nonce}`));
  assert.deepEqual((await device.report(UNREADABLE)).bytes, bytes);
  assert.equal(asked.length, 2);
  // Another campaign, another nonce; without a collector nothing is read or spent.
  await (await agreeing(issuing("two"), { ledger, url })).report(held);
  assert.notEqual(asked[2].split("nonce=")[1], nonce);
  const alone = await agreeing(issuing("three"), { ledger });
  assert.equal(await code(alone.report(UNREADABLE)), "no-id");
  assert.equal((await alone.status()).spent, 0);
});

// --- connect ---

async function campaignServer(view) {
  const asked = [];
  const base = await serve((request, response) => {
    asked.push(`${request.method} ${request.url}`);
    if (request.url.includes("/ids")) return response.end(JSON.stringify({ ids: ["0f".repeat(16)] }));
    return response.end(typeof view === "string" ? view : JSON.stringify(view));
  });
  return { base, asked };
}

test("a refusal is told in the collector's own words, which are cut to a line and never believed", async () => {
  const refused = (status, body) => serve((_, response) => response.writeHead(status).end(body));
  const detail = async (status, body) => (await (await loaded(await refused(status, body), 1)).upload()).detail;
  const problem = { title: "t", detail: "reports are sent with a device's token.", remedy: "Use another.", code: "x" };
  const words = "403: reports are sent with a device's token; Use another";
  assert.equal(await detail(403, JSON.stringify(problem)), words);
  assert.equal(await detail(404, JSON.stringify({ title: "No such campaign" })), "404: No such campaign");
  for (const body of ["<html>", "null", "[1]", JSON.stringify({ detail: 1 }), "", "x".repeat(1e6)]) {
    assert.equal(await detail(502, body), "502");
  }
  assert.equal(await detail(409, JSON.stringify({ detail: "a\u001b[2J\nb" })), "409: a?[2J?b");
  assert.equal((await detail(409, JSON.stringify({ detail: "x".repeat(1e4) }))).length, 305);
  const [long, took] = await timed(() => detail(409, JSON.stringify({ detail: `${" ".repeat(6e4)}x`, remedy: "Go." })));
  assert.ok(long === "409: Go" && took < 1500, `${long} in ${took} ms`);

  const { id } = await Device.open(description(), { ledger: new MemoryLedger() });
  const address = `${await refused(403, JSON.stringify(problem))}/v1/campaigns/${id}`;
  await assert.rejects(Device.connect(address, { ledger: new MemoryLedger() }), {
    code: "token-refused",
    said: words,
    message: `${SENTENCES["token-refused"]} It says: ${words}`,
  });
});

test("connect opens the round of the campaign at an address, and believes no other", async () => {
  const { id } = await Device.open(description(), { ledger: new MemoryLedger() });
  const connect = (base, name = id) =>
    Device.connect(`${base}/v1/campaigns/${name}`, { ledger: new MemoryLedger(), ...QUIET });
  const { campaign } = description();
  const honest = await campaignServer({ campaign, round: { ...description(), campaign: id }, ids: "own" });
  const device = await connect(honest.base);
  assert.equal(device.id, id);
  assert.equal(await code(device.report(held)), "done");
  assert.deepEqual(honest.asked, [`GET /v1/campaigns/${id}`]);

  // An older collector says the campaign's text in the round once more.
  const issuing = await campaignServer({ campaign, round: description(), ids: "issued" });
  const { bytes } = await (await connect(issuing.base)).report(held);
  assert.equal(toHex(bytes.subarray(19, 35)), "0f".repeat(16));
  assert.equal(issuing.asked[1], `POST /v1/campaigns/${id}/ids?count=1`);

  // Python gives the same codes: tests/sdk/test_connecting.py asks both.
  const another = description({ campaign: { name: "another" } });
  const cases = [
    [{ campaign: another.campaign, round: another }, "other-campaign"],
    [{ campaign: another.campaign, round: null }, "other-campaign"],
    [{ campaign, round: another }, "other-campaign"],
    [{ campaign, round: { ...description(), campaign: "0".repeat(64) } }, "other-campaign"],
    [{ campaign, round: { ...description(), more: 1 } }, "bad-description"],
    [{ round: description() }, "bad-description"],
    [{ campaign, round: null }, "waiting"],
    [{ campaign }, "waiting"],
    [{ campaign, round: 1 }, "bad-description"],
    ["no JSON", "bad-description"],
    ["null", "bad-description"],
    [{ campaign, round: description({ format: "keyveil-round/9" }) }, "unknown-version"],
  ];
  for (const [view, wanted] of cases) {
    await assert.rejects(
      connect((await campaignServer(view)).base),
      { code: wanted },
      JSON.stringify(view).slice(0, 80),
    );
  }
  await assert.rejects(Device.connect("https://c.example/elsewhere", { ledger: new MemoryLedger() }), {
    code: "no-collector",
  });
  await assert.rejects(Device.connect("http://c.example/v1/campaigns/x", { ledger: new MemoryLedger() }), {
    code: "https-required",
  });
  const slow = `${await serve(dripping)}/v1/campaigns/${id}`;
  const [error, took] = await timed(() =>
    Device.connect(slow, { ledger: new MemoryLedger(), timeout: 300 }).catch((why) => why),
  );
  assert.ok(error.code === "waiting" && took < 3000);
});

test("the person is told what is true, what was sent and what can be guessed", async () => {
  const device = await agreeing(
    description({ campaign: { owner: "the maps team", purpose: "learn which apps deserve work" } }),
  );
  const before = await device.explain(held);
  assert.deepEqual(before.text.split("\n").slice(0, 3), [
    'The question "apps" is asked by the maps team, to learn which apps deserve work.',
    "True here: maps 12, chess 50. This stays on the device.",
    "Sent: nothing yet.",
  ]);
  await device.report(held);
  const { ok, code: done, text } = await device.explain({});
  assert.deepEqual([ok, done], [true, "done"]);
  assert.match(text, /True here: nothing that is asked about\..*\nSent: 1 noised bytes/);
  assert.match(text, /from 50 % to 73 %/);
  assert.equal(await code(device.explain(null)), "bad-record");
});

test("the types name what the module exports, and nothing else", async () => {
  const types = readFileSync(new URL("../index.d.ts", import.meta.url), "utf8");
  const declared = [...types.matchAll(/^export (?:declare )?(?:class|function|const) (\w+)/gm)].map(
    (match) => match[1],
  );
  assert.deepEqual(declared.sort(), Object.keys(await import("../keyveil.js")).sort());
  const codes = types
    .match(/export type Code =([^;]+);/)[1]
    .match(/"[^"]+"/g)
    .map((quoted) => quoted.slice(1, -1));
  assert.deepEqual(codes, Object.keys(SENTENCES));
});
