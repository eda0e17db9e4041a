/** Reports through a relay: which way, sealed when and to which key, and what is never sent. */
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { mkdtempSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { Device, FileLedger, MemoryLedger, readFrames, readReport, toHex } from "../node.js";
import { seal } from "../sealed.js";
import { description, QUIET, stateOf, UNREADABLE } from "./support/campaigns.js";
import { freshKey, openedReport } from "./support/opening.js";

const COLLECTOR = "https://collector.example";
const RELAY = "https://relay.example";
const SUITE = "x25519-hkdf-sha256-aes128gcm";
const held = { maps: 12, chess: 50 };
const code = async (promise) => (await promise).code;
const relayed = (relay = "required", fields = {}) => description({ ...fields, campaign: { relay, batch: 1000 } });
const listOf = (...keys) => JSON.stringify({ suite: SUITE, keys: keys.map((key) => ({ public: key.public })) });

/**
 * A relay and a collector, and all that they were asked. `keys` of each are what it lists, or a whole answer;
 * `statuses` say what becomes of sealed reports.
 */
function world({ keys = { relay: [], collector: [] }, statuses = (reports) => reports.map(() => "accepted") } = {}) {
  const met = [];
  const fetch = async (address, { method = "GET", body, headers = {}, keepalive = false }) => {
    const { origin, pathname } = new URL(address);
    const place = origin === RELAY ? "relay" : "collector";
    const reports = body && readFrames(new Uint8Array(body)).map(toHex);
    met.push({ asked: `${place} ${method} ${pathname}`, reports, token: headers.authorization, keepalive });
    if (pathname === "/v1/keys") {
      const listed = world_.keys[place];
      return Array.isArray(listed) ? new Response(listOf(...listed)) : new Response(listed.body, listed);
    }
    const said = world_.statuses(reports, met.length);
    return Array.isArray(said) ? new Response(JSON.stringify({ reports: said })) : new Response("{}", said);
  };
  const sent = () =>
    met.filter(({ reports }) => reports).map(({ asked, reports }) => [asked.split(" ")[0], ...reports]);
  const world_ = { met, fetch, keys, statuses, sent };
  return world_;
}

async function opened(one, { fetch }, { relay, ...options } = {}) {
  const ledger = options.ledger ?? new MemoryLedger();
  const chosen = { ...QUIET, url: COLLECTOR, fetch, firstWait: 0, ...options, ledger };
  const device = await Device.open(one, relay ? { ...chosen, relay: { url: RELAY, seal, ...relay } } : chosen);
  await device.enable();
  return { device, ledger };
}

test("through a relay the collector's own bytes come sealed, under the relay's address, without a token", async () => {
  const key = freshKey();
  const { met, fetch } = world();
  const { device } = await opened(relayed(), { fetch }, { relay: { key: key.public }, token: "kv-1" });
  assert.equal((await device.status()).route, null);
  const { bytes } = await device.report(held);
  await device.submit(UNREADABLE);
  assert.equal(met.length, 0, "a key that is shipped is asked of nobody");
  assert.deepEqual(await device.upload(), { ok: true, code: "done", sent: 1, refused: [] });
  assert.deepEqual(
    met.map(({ asked, token }) => [asked, token]),
    [[`relay POST /v1/campaigns/${device.id}/sealed`, undefined]],
  );
  const [sealed] = met[0].reports;
  const inside = openedReport(Buffer.from(sealed, "hex"), { privateHex: key.private, campaign: device.id, round: 1 });
  assert.equal(inside, toHex(bytes));
  assert.equal(readReport(bytes).round, 1);
  const { queued, sent, route } = await device.status();
  assert.deepEqual([queued, sent, route], [0, 1, "relay"]);
});

test("what a campaign requires or forbids is kept to, whatever is given", async () => {
  const cases = [
    ["none", true, "not-relayed"],
    ["required", false, "relay-required"],
    ["allowed", true, "done", "relay"],
    ["allowed", false, "done", "direct"],
    ["required", true, "done", "relay"],
    ["none", false, "done", "direct"],
  ];
  for (const [relay, isNamed, wanted, way] of cases) {
    const one = relay === "none" ? description() : relayed(relay);
    const here = world();
    const { device } = await opened(one, here, { relay: isNamed ? { key: freshKey().public } : undefined });
    assert.equal(await code(device.submit(held)), "done");
    assert.equal(await code(device.upload()), wanted, `${relay} ${isNamed}`);
    const places = here.met.map(({ asked }) => asked.split(" ")[0]);
    assert.deepEqual(places, way ? [way === "relay" ? "relay" : "collector"] : []);
    const { queued, route } = await device.status();
    assert.deepEqual([queued, route], way ? [0, way] : [1, null]);
  }
});

test("a campaign goes one way for good, and the way is written down before anything is sent", async () => {
  for (const first of ["direct", "relay"]) {
    const key = freshKey().public;
    const { fetch, met } = world({ statuses: () => ({ status: 503 }) });
    const ledger = new MemoryLedger();
    let atFirst;
    const watching = async (...asked) => {
      atFirst ??= (await stateOf(ledger)).routes[device.id].way;
      return fetch(...asked);
    };
    const ways = { direct: undefined, relay: { key } };
    const { device } = await opened(relayed("allowed"), { fetch: watching }, { ledger, relay: ways[first] });
    await device.submit(held);
    assert.equal(await code(device.upload()), "waiting");
    assert.equal(atFirst, first);
    const second = first === "direct" ? "relay" : "direct";
    const { device: other } = await opened(relayed("allowed"), { fetch }, { ledger, relay: ways[second] });
    assert.equal(await code(other.upload()), "other-route");
    assert.equal(await code(other.submit(UNREADABLE)), "done", "the answer is still repeated");
    assert.equal(await code(other.upload()), "other-route");
    assert.equal((await other.status()).route, first);
    assert.equal(met.length, 1);
    // After a no and a yes as well.
    await other.disable();
    await other.enable();
    assert.equal(await code(other.upload()), "other-route");
  }
});

test("a report is sealed once: every retry, visit and repeat sends the same bytes", async () => {
  const path = join(mkdtempSync(join(tmpdir(), "keyveil-")), "ledger.json");
  const relay = { key: freshKey().public };
  let answers = 0;
  const here = world({ statuses: (reports) => (++answers < 3 ? { status: 503 } : reports.map(() => "accepted")) });
  for (let visit = 0; visit < 5; visit++) {
    const { device } = await opened(relayed(), here, {
      relay,
      ledger: new FileLedger(path),
      now: () => 1e12 + visit * 1e8,
    });
    await device.submit(visit ? UNREADABLE : held);
    assert.equal(await code(device.upload()), visit < 2 ? "waiting" : "done");
  }
  assert.equal(here.sent().length, 5);
  assert.equal(new Set(here.sent().map(([, report]) => report)).size, 1);
  // Another relay may carry the very same.
  const { fetch, met } = world();
  const elsewhere = { ...relay, url: COLLECTOR };
  const { device } = await opened(
    relayed(),
    { fetch },
    { relay: elsewhere, ledger: new FileLedger(path), now: () => 2e12 },
  );
  await device.submit(UNREADABLE);
  assert.equal((await device.upload()).sent, 1);
  assert.equal(met[0].reports[0], here.sent()[0][1]);
});

test("a no wipes what was sealed, and what was being sealed is not sent after it", async (context) => {
  const here = world({ statuses: () => ({ status: 503 }) });
  const { device, ledger } = await opened(relayed(), here, { relay: { key: freshKey().public } });
  await device.submit(held);
  await device.upload();
  assert.match((await stateOf(ledger)).answers[0].sealed, /^01/);
  await device.disable();
  const { answers, queue } = await stateOf(ledger);
  assert.deepEqual([answers[0].bytes, answers[0].sealed, queue], [null, null, []]);

  const later = world();
  const other = await opened(relayed(), later, { relay: { key: freshKey().public } });
  await other.device.submit(held);
  let go;
  const { generateKey } = globalThis.crypto.subtle;
  context.mock.method(globalThis.crypto.subtle, "generateKey", async (...given) => {
    await new Promise((done) => (go = done));
    return generateKey.apply(globalThis.crypto.subtle, given);
  });
  const uploading = other.device.upload();
  await new Promise((wake) => setTimeout(wake, 20));
  await other.device.disable();
  go();
  assert.equal(await code(uploading), "disabled");
  assert.equal((await stateOf(other.ledger)).answers[0].sealed, null);
  assert.equal(later.met.length, 0);
});

test("what is wiped while it is being sealed is not sent, whatever was said since", async (context) => {
  const here = world();
  const { device } = await opened(relayed(), here, { relay: { key: freshKey().public } });
  await device.submit(held);
  let go;
  const { generateKey } = globalThis.crypto.subtle;
  context.mock.method(globalThis.crypto.subtle, "generateKey", async (...given) => {
    await new Promise((done) => (go = done));
    return generateKey.apply(globalThis.crypto.subtle, given);
  });
  const uploading = device.upload();
  await new Promise((wake) => setTimeout(wake, 20));
  await device.disable();
  await device.enable();
  go();
  assert.deepEqual(await uploading, { ok: true, code: "done", sent: 0, refused: [] });
  assert.equal(here.met.length, 0);
});

test("what is sealed takes room in the queue as well", async () => {
  const here = world({ statuses: () => ({ status: 503 }) });
  const options = { relay: { key: freshKey().public }, ledger: new MemoryLedger(), mostQueuedBytes: 180 };
  const numbered = (number) =>
    opened(
      description({
        number,
        campaign: { epsilon: 32, relay: "required", batch: 1000 },
        mechanism: { id: "kvue", epsilon: "1/100" },
      }),
      here,
      { ...options, campaignCap: 99, lifetimeCap: 99 },
    );
  const left = async (number) => {
    const { device } = await numbered(number);
    await device.submit(held);
    const { queued, dropped } = await device.status();
    if (number === 2) await device.upload();
    return [queued, dropped];
  };
  // 36 bytes each, and 95 sealed: of the third's 298 bytes the first's 131 make room.
  assert.deepEqual(
    [await left(1), await left(2), await left(3)],
    [
      [1, 0],
      [2, 0],
      [2, 1],
    ],
  );
});

test("devices that share a ledger and upload at once send the same bytes", async () => {
  const relay = { key: freshKey().public };
  const here = world();
  const ledger = new FileLedger(join(mkdtempSync(join(tmpdir(), "keyveil-")), "ledger.json"));
  const devices = [];
  for (let tab = 0; tab < 4; tab++) devices.push((await opened(relayed(), here, { relay, ledger })).device);
  await devices[0].submit(held);
  for (const outcome of await Promise.all(devices.map((device) => device.upload()))) assert.equal(outcome.code, "done");
  assert.ok(here.sent().length > 1);
  assert.equal(new Set(here.sent().map(([, report]) => report)).size, 1);
});

const KILLED = `
  import { Device, FileLedger } from ${JSON.stringify(new URL("../node.js", import.meta.url).href)};
  import { seal } from ${JSON.stringify(new URL("../sealed.js", import.meta.url).href)};
  import { writeSync } from "node:fs";
  const [path, text, key] = process.argv.slice(1);
  const fetch = (_, { body }) => {
    writeSync(1, Buffer.from(body.subarray(4)).toString("hex"));
    process.kill(process.pid, "SIGKILL");
  };
  const relay = { url: ${JSON.stringify(RELAY)}, seal, key };
  const ledger = new FileLedger(path);
  const device = await Device.open(JSON.parse(text), { ledger, environment: {}, fetch, relay });
  await device.enable();
  await device.submit({ maps: 12 });
  await device.upload();
`;

test("a process that dies between sealing and the answer sends the same bytes when it comes back", async () => {
  const path = join(mkdtempSync(join(tmpdir(), "keyveil-")), "ledger.json");
  const key = freshKey().public;
  const given = ["--input-type=module", "-e", KILLED, path, JSON.stringify(relayed()), key];
  const visit = () => spawnSync(process.execPath, given, { encoding: "utf8" });
  const [first, second] = [visit(), visit()];
  assert.deepEqual([first.signal, second.signal], ["SIGKILL", "SIGKILL"], first.stderr + second.stderr);
  assert.match(first.stdout, /^01([0-9a-f]{2}){60,}$/);
  assert.equal(second.stdout, first.stdout);
  const here = world();
  const { device } = await opened(relayed(), here, { relay: { key }, ledger: new FileLedger(path) });
  assert.equal((await device.upload()).sent, 1);
  assert.equal(here.sent()[0][1], first.stdout);
});

test("without a shipped key both are asked, and the collector's newest key that the relay lists is taken", async () => {
  const [own, older, newer, relays] = [freshKey(), freshKey(), freshKey(), freshKey()];
  const cases = [
    [[older, newer], [newer, older], newer],
    [[older, relays], [newer, older], older],
    [[relays, older, newer], [newer], newer],
  ];
  for (const [relay, collector, wanted] of cases) {
    const here = world({ keys: { relay, collector } });
    const { device } = await opened(relayed(), here, { relay: {}, token: "kv-1" });
    await device.submit(held);
    assert.equal(await code(device.upload()), "done");
    assert.deepEqual(
      here.met.map(({ asked, token }) => [asked.slice(0, asked.lastIndexOf("/")), token]),
      [
        ["relay GET /v1", undefined],
        ["collector GET /v1", undefined],
        [`relay POST /v1/campaigns/${device.id}`, undefined],
      ],
    );
    const sealed = Buffer.from(here.sent()[0][1], "hex");
    const open = (key) => openedReport(sealed, { privateHex: key.private, campaign: device.id, round: 1 });
    assert.match(open(wanted), /^01/);
    assert.equal(open(own), "not-sealed");
  }
});

test("where they share no key, or one of them lists none, reports wait", async () => {
  const [one, other] = [freshKey(), freshKey()];
  const zeros = { public: "00".repeat(32) };
  const body = (said) => ({ body: typeof said === "string" ? said : JSON.stringify(said), status: 200 });
  const cases = [
    [[one], [other], "keys-differ"],
    [[], [other], "keys-differ"],
    [[one], [], "keys-differ"],
    [[zeros], [zeros], "keys-differ"],
    [body({ suite: "another", keys: [one] }), [one], "keys-differ"],
    [body({ suite: SUITE, keys: [{ public: "ab" }] }), [one], "keys-differ"],
    [body({ suite: SUITE, keys: [{}] }), [one], "waiting"],
    [body({ suite: SUITE }), [one], "waiting"],
    [body("[".repeat(30_000)), [one], "waiting"],
    [body(" ".repeat(70_000) + listOf(one)), [one], "waiting"],
    [{ body: "{}", status: 503 }, [one], "waiting"],
    [[one], { body: "{}", status: 500 }, "waiting"],
    [[one], { body: "{}", status: 404 }, "refused"],
  ];
  for (const [relay, collector, wanted] of cases) {
    const here = world({ keys: { relay, collector } });
    const { device } = await opened(relayed(), here, { relay: {}, firstWait: 60_000 });
    await device.submit(held);
    const { code: said, sent } = await device.upload();
    assert.deepEqual([said, sent], [wanted, 0], JSON.stringify([relay, collector]).slice(0, 120));
    const asked = here.met.length;
    assert.equal(await code(device.upload()), "waiting", "who asked in vain waits");
    assert.equal(here.met.length, asked);
    assert.deepEqual([here.sent(), (await device.status()).queued], [[], 1]);
  }
});

test("a relay is never asked in the collector's place", async () => {
  const key = freshKey();
  const keys = { relay: [key], collector: [key] };
  for (const url of [undefined, RELAY, `${RELAY}:443/collector`]) {
    const here = world({ keys });
    const { device } = await opened(relayed(), here, { relay: {}, url });
    await device.submit(held);
    assert.equal(await code(device.upload()), "no-collector");
    assert.equal(here.met.length, 0);
  }
  // A shipped key needs no collector.
  const here = world();
  const { device } = await opened(relayed(), here, { relay: { key: key.public }, url: undefined });
  await device.submit(held);
  assert.equal(await code(device.upload()), "done");
});

test("keys that were asked for are believed for some minutes", async () => {
  const key = freshKey();
  const here = world({ keys: { relay: [key], collector: [key] } });
  let clock = 1e12;
  const options = { relay: {}, ledger: new MemoryLedger(), now: () => clock };
  const { device } = await opened(relayed(), here, options);
  const forget = () => options.ledger.update((state) => state.answers.forEach((answer) => (answer.sealed = null)));
  const asked = () => here.met.filter(({ reports }) => !reports).length;
  for (const [later, requests] of [
    [0, 2],
    [299_000, 2],
    [2_000, 4],
  ]) {
    clock += later;
    await forget();
    await device.submit(later ? UNREADABLE : held);
    assert.equal(await code(device.upload()), "done");
    assert.equal(asked(), requests, `after ${clock - 1e12} ms`);
  }
});

test("a key that the relay takes no more: the report waits, is sealed again and sent", async () => {
  const [old, fresh] = [freshKey(), freshKey()];
  const here = world({
    keys: { relay: [old], collector: [old] },
    statuses: (reports) => reports.map(() => "unknown-key"),
  });
  let clock = 1e12;
  const options = { relay: {}, ledger: new MemoryLedger(), now: () => clock, firstWait: 1_000 };
  const { device } = await opened(relayed(), here, options);
  await device.submit(held);
  const outcome = await device.upload();
  assert.deepEqual([outcome.code, outcome.sent, outcome.refused], ["waiting", 0, []]);
  const state = await stateOf(options.ledger);
  assert.deepEqual([state.answers[0].sealed, state.queue.length, state.routes[device.id].failures], [null, 1, 1]);
  assert.equal(await code(device.upload()), "waiting");
  assert.equal(here.sent().length, 1, "not before its time");
  clock += 2_000;
  assert.equal(await code(device.upload()), "waiting");
  assert.equal((await stateOf(options.ledger)).routes[device.id].failures, 2, "longer every time");
  clock += 4_000;
  here.keys = { relay: [fresh], collector: [fresh] };
  here.statuses = (reports) => reports.map(() => "accepted");
  assert.equal((await device.upload()).sent, 1);
  const [first, , last] = here.sent().map(([, report]) => Buffer.from(report, "hex"));
  const open = (sealed, key) => openedReport(sealed, { privateHex: key.private, campaign: device.id, round: 1 });
  assert.equal(open(last, fresh), open(first, old));
  assert.match(open(last, fresh), /^01/);
});

test("a shipped key that the relay takes no more waits for another version of the application", async () => {
  const [old, fresh] = [freshKey(), freshKey()];
  const here = world({ statuses: (reports) => reports.map(() => "unknown-key") });
  const ledger = new MemoryLedger();
  const { device } = await opened(relayed(), here, { relay: { key: old.public }, ledger });
  await device.submit(held);
  assert.equal(await code(device.upload()), "keys-differ");
  assert.equal(await code(device.upload()), "keys-differ");
  const [first, second] = here.sent();
  assert.deepEqual(first, second, "to the same key it is not sealed again");
  const updated = await opened(relayed(), here, { relay: { key: fresh.public }, ledger });
  assert.equal(await code(updated.device.upload()), "waiting");
  here.statuses = (reports) => reports.map(() => "accepted");
  assert.equal(await code(updated.device.upload()), "done");
  const last = Buffer.from(here.sent().at(-1)[1], "hex");
  assert.match(openedReport(last, { privateHex: fresh.private, campaign: device.id, round: 1 }), /^01/);
});

test("each report is settled by the relay's own word; one whose key is unknown waits on alone", async () => {
  const relay = { key: freshKey().public };
  const here = world({
    statuses: () => ["accepted", "unknown-key", "wrong-round", "round-closed", "a code of tomorrow"],
  });
  const ledger = new MemoryLedger();
  let device;
  for (let number = 1; number <= 5; number++) {
    const one = description({
      number,
      campaign: { epsilon: 32, relay: "required", batch: 1000 },
      mechanism: { id: "kvue", epsilon: "1/100" },
    });
    ({ device } = await opened(one, here, { relay, ledger, campaignCap: 1e6, lifetimeCap: 1e6 }));
    await device.submit({ maps: number });
  }
  const { code: said, sent, refused } = await device.upload();
  assert.deepEqual(
    [said, sent, refused.map((one) => one.code)],
    ["keys-differ", 1, ["wrong-round", "round-closed", "a code of tomorrow"]],
  );
  const { queued } = await device.status();
  assert.equal(queued, 1);
  // The collector's own word "unknown-key" is for no device: it is final there.
  const direct = world({ statuses: () => ["unknown-key"] });
  const { device: plain } = await opened(description(), direct);
  await plain.submit(held);
  const outcome = await plain.upload();
  assert.deepEqual([outcome.code, outcome.refused[0].code], ["done", "unknown-key"]);
});

test("each report is sealed for its own round, and all of a round are of one length", async () => {
  const key = freshKey();
  const here = world();
  const ledger = new MemoryLedger();
  let device;
  for (const number of [1, 258]) {
    const one = description({
      number,
      campaign: { epsilon: 32, relay: "required", batch: 1000 },
      mechanism: { id: "kvue", epsilon: "1/100" },
    });
    ({ device } = await opened(one, here, { relay: { key: key.public }, ledger, campaignCap: 99, lifetimeCap: 99 }));
    await device.submit(number === 1 ? {} : held);
  }
  assert.equal((await device.upload()).sent, 2);
  const reports = here
    .sent()[0]
    .slice(1)
    .map((report) => Buffer.from(report, "hex"));
  for (const [place, round] of [1, 258].entries()) {
    const inside = openedReport(reports[place], { privateHex: key.private, campaign: device.id, round });
    assert.equal(readReport(Buffer.from(inside, "hex")).round, round);
  }
  assert.equal(reports[0].length, reports[1].length);
});

test("the person is told which way it goes, once it does", async () => {
  const ways = {
    relay: [{ key: freshKey().public }, /sealed through a relay/],
    direct: [undefined, /to the collector/],
  };
  for (const [relay, words] of Object.values(ways)) {
    const { device } = await opened(relayed("allowed"), world(), { relay });
    await device.submit(held);
    assert.doesNotMatch((await device.explain(held)).text, words);
    await device.upload();
    assert.match((await device.explain(held)).text, words);
  }
});

test("where nothing can seal, reports wait", async (context) => {
  const here = world();
  const { device } = await opened(relayed(), here, { relay: { key: freshKey().public } });
  await device.submit(held);
  context.mock.method(globalThis.crypto.subtle, "generateKey", () => Promise.reject(new Error("no such algorithm")));
  assert.equal(await code(device.upload()), "no-sealing");
  context.mock.restoreAll();
  assert.equal(await code(device.upload()), "done");
});

test("a relay may want a token of its own, which nobody else is shown", async () => {
  const key = freshKey();
  const here = world({ keys: { relay: [key], collector: [key] } });
  const { device } = await opened(relayed(), here, { relay: { token: "kr-1" }, token: "kv-1" });
  await device.submit(held);
  await device.upload();
  assert.deepEqual(
    here.met.map(({ token }) => token),
    [undefined, undefined, "Bearer kr-1"],
  );
});

test("a relay that cannot be meant is a mistake of the application", async () => {
  const open = (relay) => Device.open(relayed(), { ...QUIET, ledger: new MemoryLedger(), relay });
  await assert.rejects(open({ url: "http://relay.example", seal }), { code: "https-required" });
  await assert.rejects(open({ url: "no address", seal }), { code: "no-collector" });
  await assert.rejects(open({ url: RELAY, seal, token: "two words" }), { code: "bad-token" });
  await assert.rejects(open({ url: RELAY }), TypeError);
  for (const key of ["", "ab", "g".repeat(64), 7, null, new Uint8Array(32)]) {
    await assert.rejects(open({ url: RELAY, seal, key }), TypeError);
  }
  await open({ url: RELAY, seal, key: freshKey().public.toUpperCase() });
});

test("the relay may be asked for the campaign: without the token, and never taken for the collector", async () => {
  const one = relayed();
  const { id } = await Device.open(one, { ...QUIET, ledger: new MemoryLedger() });
  const met = [];
  // A collector that hands out ids would know whose report is whose.
  const view = JSON.stringify({ campaign: one.campaign, round: { ...one, campaign: id }, ids: "issued" });
  const fetch = async (address, { headers = {} }) => {
    met.push([address, headers.authorization]);
    return new Response(address.endsWith("/sealed") ? '{"reports":["accepted"]}' : view);
  };
  const options = { ...QUIET, fetch, token: "kv-1" };
  const connect = (base, relay) =>
    Device.connect(`${base}/v1/campaigns/${id}`, { ...options, relay, ledger: new MemoryLedger() });
  const atRelay = await connect(RELAY, { url: RELAY, seal, key: freshKey().public });
  await atRelay.enable();
  assert.equal(await code(atRelay.submit(held)), "done");
  assert.equal(await code(atRelay.upload()), "done");
  assert.deepEqual(met, [
    [`${RELAY}/v1/campaigns/${id}`, undefined],
    [`${RELAY}/v1/campaigns/${id}/sealed`, undefined],
  ]);
  const unshipped = await connect(RELAY, { url: RELAY, seal });
  await unshipped.enable();
  await unshipped.submit(held);
  assert.equal(await code(unshipped.upload()), "no-collector");
  met.length = 0;
  const atCollector = await connect(COLLECTOR, { url: RELAY, seal, key: freshKey().public });
  assert.deepEqual(met, [[`${COLLECTOR}/v1/campaigns/${id}`, "Bearer kv-1"]]);
  await atCollector.enable();
  assert.equal(await code(atCollector.submit(held)), "done");
  assert.equal(met.length, 1, "no id was asked for");
});

/** Numbers below `most`, the same for a seed. */
function drawing(seed) {
  let state = seed;
  return (most) => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return Math.floor((state / 2 ** 32) * most);
  };
}

test("whatever all do, a report goes one way for good, and the same bytes until its key is unknown", async () => {
  let sealedAgain = 0;
  let sent = 0;
  for (let seed = 1; seed <= 60; seed++) {
    const draw = drawing(seed);
    const pick = (...choices) => choices[draw(choices.length)];
    const keys = [freshKey(), freshKey()];
    const mayBeDirect = draw(2) === 0;
    const one = relayed(mayBeDirect ? "allowed" : "required");
    const answer = (reports) =>
      pick({ status: 503 }, { status: 404 }, ["unknown-key"], ["accepted"], ["round-closed"], reports);
    const here = world({ statuses: answer });
    const ledger = new MemoryLedger();
    let now = 1e12;
    // What was sealed for the relay last, until it says that the key is unknown.
    let sealed = null;
    for (let step = 0; step < 20; step++) {
      here.keys = { relay: pick([keys[0]], [keys[1]], keys, []), collector: pick(keys, [keys[1]], { status: 503 }) };
      const relay = pick(undefined, {}, {}, { key: pick(...keys).public });
      const { device } = await opened(one, here, { relay, ledger, now: () => (now += 1e8) });
      if (draw(12) === 0) {
        await device.disable();
        await device.enable();
      }
      await device.submit(held);
      const before = here.sent().length;
      const { code: said } = await device.upload();
      const state = await stateOf(ledger);
      for (const [, report] of here.sent().slice(before)) {
        sent++;
        const way = relay ? "relay" : "direct";
        assert.deepEqual([here.sent().at(-1)[0], state.routes[device.id].way], [relay ? "relay" : "collector", way]);
        assert.ok(relay || mayBeDirect, `seed ${seed}: ${said}`);
        if (!relay) continue;
        assert.ok(sealed === null || sealed === report, `seed ${seed}, step ${step}: sealed again`);
        sealed = report;
      }
      // Forgotten because its key is unknown; or wiped, and then nothing is ever sent again.
      if (sealed !== null && state.answers[0].sealed === null) {
        sealed = null;
        sealedAgain++;
      }
    }
    const ways = new Set(here.sent().map(([place]) => place));
    assert.ok(ways.size <= 1, `seed ${seed} went both ways`);
  }
  assert.ok(sent > 100 && sealedAgain > 10, `${sent} sent, ${sealedAgain} sealed again`);
});
