/** Uploads over a real socket: the collector's statuses, its refusals, and tokens. */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createServer } from "node:http";
import { after, test } from "node:test";
import { Device, MemoryLedger, readFrames, toHex } from "../keyveil.js";

const vectors = new URL("../../../tests/vectors/pckv-ue.json", import.meta.url);
const config = JSON.parse(readFileSync(vectors, "utf8")).suites[0].config;
const servers = [];
after(() => servers.forEach((server) => server.close()));

/** A server that answers each upload as `answer(reports)` says: a list of statuses, or [status, headers]. */
async function collector(answer) {
  const met = [];
  const server = createServer(async (request, response) => {
    const parts = [];
    for await (const part of request) parts.push(part);
    const reports = readFrames(new Uint8Array(Buffer.concat(parts))).map(toHex);
    met.push({ reports, token: request.headers.authorization, path: request.url });
    const said = answer(reports);
    if (typeof said[0] !== "number") return response.end(JSON.stringify({ reports: said }));
    response.writeHead(said[0], said[1]);
    return response.end("{}");
  });
  servers.push(server);
  await new Promise((done) => server.listen(0, "127.0.0.1", done));
  return { met, url: `http://127.0.0.1:${server.address().port}` };
}

/** A device that has so many different reports in its queue. */
async function loaded(url, reports, options = {}) {
  const device = await Device.open(config, { ledger: new MemoryLedger(), environment: {}, campaignCap: 1e6, lifetimeCap: 1e6, url, ...options });
  await device.enable();
  for (let minutes = 0; minutes < reports; minutes++) await device.report({ maps: minutes });
  return device;
}

test("each report is settled by its own status, in order", async () => {
  const { met, url } = await collector(() => ["accepted", "duplicate", "round_closed", "wrong-round", "a code of tomorrow"]);
  const device = await loaded(url, 5);
  assert.deepEqual(await device.send(), {
    ok: true,
    sent: 2,
    refused: [
      { code: "round_closed", reason: "the round it answers is over" },
      { code: "wrong-round", reason: "it answers a round that has not been opened" },
      { code: "a code of tomorrow", reason: "the collector refused it" },
    ],
  });
  const { queued, refused } = await device.status();
  assert.deepEqual([queued, refused], [0, 3]);
  assert.deepEqual(await device.send(), { ok: true, sent: 0, refused: [] });
  assert.equal(met.length, 1, "what has a status is never sent again");
});

test("an answer without a status for each report settles nothing", async () => {
  for (const said of [[], ["accepted"], ["accepted", "accepted", "accepted"]]) {
    const { url } = await collector(() => said);
    const device = await loaded(url, 2);
    assert.equal((await device.send()).code, "waiting");
    const { queued, refused } = await device.status();
    assert.deepEqual([queued, refused], [2, 0]);
  }
});

test("a token goes into the header, and without one there is none", async () => {
  const { met, url } = await collector((reports) => reports.map(() => "accepted"));
  await (await loaded(url, 1, { token: "kv-0123-abc" })).send();
  await (await loaded(url, 1)).send();
  assert.deepEqual(met.map(({ token }) => token), ["Bearer kv-0123-abc", undefined]);
  for (const token of ["", "two words", "line\nbreak", "\u00e9"]) await assert.rejects(loaded(url, 1, { token }), { code: "bad-token" });
});

test("a token that is not taken leaves the reports waiting, and says so", async () => {
  for (const status of [401, 403]) {
    const { met, url } = await collector((reports) => (met.length > 1 ? reports.map(() => "accepted") : [status, {}]));
    let clock = 1_000_000;
    const ledger = new MemoryLedger();
    const device = await loaded(url, 2, { ledger, now: () => clock });
    const { ok, code, reason } = await device.send();
    assert.deepEqual([ok, code], [false, "token-refused"]);
    assert.match(reason, /another token/);
    assert.equal((await device.status()).queued, 2);
    clock += 3_600_000;
    const again = await Device.open(config, { ledger, environment: {}, url, token: "kv-new", now: () => clock });
    assert.deepEqual(await again.send(), { ok: true, sent: 2, refused: [] });
  }
});

test("a batch that is too large is sent in halves; one report that is, is refused", async () => {
  const { met, url } = await collector((reports) => (reports.length > 2 ? [413, {}] : reports.map(() => "accepted")));
  assert.deepEqual(await (await loaded(url, 7)).send(), { ok: true, sent: 7, refused: [] });
  assert.deepEqual(met.map(({ reports }) => reports.length), [7, 3, 1, 2, 4, 2, 2]);
  const strict = await collector(() => [413, {}]);
  const { sent, refused } = await (await loaded(strict.url, 2)).send();
  assert.deepEqual([sent, refused.map(({ code }) => code)], [0, ["batch-refused", "batch-refused"]]);
});

test("a half that fails leaves the whole batch waiting under the same ids", async () => {
  let clock = 1_000_000;
  const { met, url } = await collector((reports) => (reports.length > 2 ? [413, {}] : met.length === 3 ? [503, { "retry-after": "60" }] : reports.map(() => "accepted")));
  const device = await loaded(url, 4, { now: () => clock });
  assert.equal((await device.send()).code, "waiting");
  assert.equal((await device.status()).queued, 4);
  clock += 59_000;
  assert.equal((await device.send()).code, "waiting", "Retry-After is kept");
  clock += 2_000;
  assert.deepEqual(await device.send(), { ok: true, sent: 4, refused: [] });
  assert.equal(new Set(met.flatMap(({ reports }) => reports)).size, 4);
});
