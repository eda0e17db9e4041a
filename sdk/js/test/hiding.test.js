/** A page that is hidden or left: what waits goes with it, and nothing goes after a no. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { Device, MemoryLedger, readFrames, toHex } from "../keyveil.js";
import { seal } from "../sealed.js";
import { description, stateOf, UNREADABLE } from "./support/campaigns.js";
import { freshKey } from "./support/opening.js";

const URL = "https://collector.example";

/** A page with what a browser gives it; `hide`, `leave` and `show` do what a person does. */
function page(channels = new Set()) {
  const document = Object.assign(new EventTarget(), { visibilityState: "visible" });
  const events = new EventTarget();
  class BroadcastChannel extends EventTarget {
    constructor() {
      super();
      channels.add(this);
    }

    postMessage() {
      for (const other of channels) if (other !== this) other.dispatchEvent(new Event("message"));
    }

    close() {
      channels.delete(this);
    }
  }
  const change = (visibilityState) => {
    document.visibilityState = visibilityState;
    document.dispatchEvent(new Event("visibilitychange"));
  };
  return {
    environment: {
      document,
      BroadcastChannel,
      addEventListener: (...given) => events.addEventListener(...given),
      removeEventListener: (...given) => events.removeEventListener(...given),
    },
    channels,
    hide: () => change("hidden"),
    leave: () => events.dispatchEvent(new Event("pagehide")),
    show: () => change("visible"),
  };
}

/** A collector that counts everything, and what it met. */
function collecting(answer = (reports) => ({ body: JSON.stringify({ reports: reports.map(() => "accepted") }) })) {
  const met = [];
  const fetch = async (address, { body, keepalive }) => {
    const reports = readFrames(new Uint8Array(body)).map(toHex);
    met.push({ reports, keepalive });
    const { body: said = "", status = 200 } = answer(reports);
    return new Response(said, { status });
  };
  return { met, fetch };
}

async function inPage(here, { ledger = new MemoryLedger(), ...options } = {}) {
  const device = await Device.open(description(), { ledger, url: URL, ...options, environment: here.environment });
  await device.enable();
  const end = device.uploadOnHide();
  return { device, ledger, end };
}

/** Waits until nothing is under way: a few turns of the event loop, for no timer is involved. */
async function rest() {
  for (let turn = 0; turn < 20; turn++) await new Promise((done) => setImmediate(done));
}

for (const how of ["hide", "leave"]) {
  test(`what waits is sent in the very moment of ${how}, by a request that outlives the page`, async () => {
    const here = page();
    const { met, fetch } = collecting();
    const { device } = await inPage(here, { fetch });
    await device.submit({ maps: 12 });
    assert.equal(met.length, 0, "submit sends nothing");
    here[how]();
    // Nothing was awaited since: a page that ends now has sent it.
    assert.deepEqual(
      met.map(({ reports, keepalive }) => [reports.length, keepalive]),
      [[1, true]],
    );
    await rest();
    const { queued, sent } = await device.status();
    assert.deepEqual([queued, sent], [0, 1], "whoever is still there reads the answer");
    here[how]();
    assert.equal(met.length, 1);
  });
}

test("a page that ends before the answer sends the same bytes at its next visit", async (context) => {
  // Nobody is there any more when its time would be over.
  context.mock.timers.enable({ apis: ["setTimeout"] });
  const ledger = new MemoryLedger();
  const first = page();
  const never = {
    met: [],
    fetch: (_, { body }) => never.met.push(toHex(new Uint8Array(body))) && new Promise(() => {}),
  };
  const { device } = await inPage(first, { ledger, fetch: never.fetch });
  await device.submit({ maps: 12 });
  first.leave();
  const { met, fetch } = collecting();
  const { device: next } = await inPage(page(), { ledger, fetch });
  assert.equal((await next.upload()).sent, 1);
  assert.ok(never.met[0].endsWith(met[0].reports[0]));
});

test("what is queued by a hidden page is sent at once", async () => {
  const here = page();
  const { met, fetch } = collecting();
  const { device } = await inPage(here, { fetch });
  here.hide();
  await device.submit({ maps: 12 });
  assert.equal(met.length, 1);
});

test("what is being queued while the page is hidden is sent, however far it has come", async () => {
  for (let at = 1; at <= 6; at++) {
    const here = page();
    const { met, fetch } = collecting();
    const inner = new MemoryLedger();
    let hidesAfter = Infinity;
    const ledger = {
      async update(change) {
        const result = await inner.update(change);
        if (--hidesAfter === 0) here.hide();
        return result;
      },
    };
    const { device } = await inPage(here, { fetch, ledger });
    await rest();
    hidesAfter = at;
    await device.submit({ maps: 12 });
    if (hidesAfter > 0) here.hide();
    await rest();
    assert.ok(met.length >= 1, `hidden after transaction ${at}`);
    assert.equal((await device.status()).queued, 0);
  }
});

test("after a no nothing leaves with the page, whoever said it", async () => {
  const channels = new Set();
  const [here, other] = [page(channels), page(channels)];
  const { met, fetch } = collecting();
  const { device, ledger } = await inPage(here, { fetch });
  await device.submit({ maps: 12 });
  const { device: elsewhere } = await inPage(other, { ledger, fetch });
  await elsewhere.disable();
  here.leave();
  other.leave();
  await device.enable();
  assert.equal((await device.submit(UNREADABLE)).code, "answered");

  const { device: own } = await inPage(here, { fetch });
  await own.submit({ maps: 12 });
  const withdrawn = own.disable();
  here.leave();
  await withdrawn;
  here.leave();
  assert.equal(met.length, 0);
});

test("what was read before a no is not held after it", async () => {
  const here = page();
  const { met, fetch } = collecting();
  const { device } = await inPage(here, { fetch });
  const submitted = device.submit({ maps: 12 });
  const withdrawn = device.disable();
  await Promise.all([submitted, withdrawn]);
  await rest();
  here.leave();
  assert.equal(met.length, 0);
});

test("a collector that asked for time is left in peace, and so is a person who asked not to be tracked", async () => {
  const here = page();
  const { met, fetch } = collecting(() => ({ status: 503 }));
  const { device } = await inPage(here, { fetch });
  await device.submit({ maps: 12 });
  assert.equal((await device.upload()).code, "waiting");
  here.leave();
  assert.equal(met.length, 1);

  const quiet = page();
  const { device: tracked } = await inPage(quiet, { fetch });
  await tracked.submit({ maps: 12 });
  quiet.environment.navigator = { globalPrivacyControl: true };
  quiet.leave();
  assert.equal(met.length, 1);
});

test("no request that outlives the page is larger than browsers allow", async () => {
  const here = page();
  const { met, fetch } = collecting();
  const ledger = new MemoryLedger();
  const keys = Array.from({ length: 30_000 }, (_, place) => `key ${place}`);
  const large = (number) =>
    description({ number, campaign: { keys, epsilon: 32 }, mechanism: { id: "oue", epsilon: "1/100" } });
  const options = { ledger, url: URL, fetch, environment: here.environment };
  for (let number = 1; number <= 20; number++) {
    const device = await Device.open(large(number), options);
    await device.enable();
    assert.equal((await device.submit({ "key 1": 1 })).code, "done");
    if (number === 20) device.uploadOnHide();
  }
  await rest();
  here.leave();
  const [{ reports }] = met;
  const size = reports.reduce((sum, report) => sum + 4 + report.length / 2, 0);
  assert.ok(50_000 < size && size <= 60_000, `${reports.length} reports, ${size} bytes`);
});

// --- through a relay ---

const RELAYED = description({ campaign: { relay: "required", batch: 1000 } });

/** A page whose device reports through a relay; `asking` answers requests for keys. */
async function inRelayedPage(here, { asking, ...options } = {}) {
  const { met, fetch: send } = collecting();
  const asked = [];
  const fetch = (address, init) =>
    address.endsWith("/keys") ? (asked.push(address), asking(address)) : (asked.push(address), send(address, init));
  const relay = { url: "https://relay.example", seal, ...options.relay };
  const chosen = { ledger: new MemoryLedger(), url: URL, fetch, ...options, relay, environment: here.environment };
  const device = await Device.open(RELAYED, chosen);
  await device.enable();
  const end = device.uploadOnHide();
  return { device, ledger: chosen.ledger, met, asked, end };
}

test("with a key at hand it is sealed when it is submitted, and leaves with the page to the relay", async () => {
  const here = page();
  const { device, ledger, met, asked } = await inRelayedPage(here, { relay: { key: freshKey().public } });
  await device.submit({ maps: 12 });
  const [{ sealed }] = (await stateOf(ledger)).answers;
  assert.deepEqual(asked, []);
  here.leave();
  assert.deepEqual(asked, [`https://relay.example/v1/campaigns/${device.id}/sealed`]);
  assert.deepEqual([met[0].reports, met[0].keepalive], [[sealed], true]);
  await rest();
  assert.equal((await device.status()).queued, 0);
});

test("a key that must be asked for keeps nobody waiting; once it is there, it is sealed and may leave", async () => {
  const key = freshKey().public;
  const list = JSON.stringify({ suite: "x25519-hkdf-sha256-aes128gcm", keys: [{ public: key }] });
  for (const how of ["before", "after"]) {
    const here = page();
    let answer;
    const asking = () => new Promise((done) => (answer = () => done(new Response(list))));
    const { device, ledger, met, asked } = await inRelayedPage(here, { asking });
    assert.equal((await device.submit({ maps: 12 })).code, "done");
    assert.equal(met.length, 0, "submit did not wait for the relay");
    assert.equal((await device.submit(UNREADABLE)).code, "done");
    assert.equal(asked.length, 1, "asked once, however often there is something to seal");
    if (how === "before") here.leave();
    assert.equal(met.length, 0, "what is not sealed does not leave");
    answer();
    await rest();
    answer();
    // Sealing is done elsewhere: it takes as long as it takes.
    while ((await stateOf(ledger)).answers[0].sealed === null) await rest();
    await rest();
    assert.deepEqual(asked.slice(0, 2), ["https://relay.example/v1/keys", `${URL}/v1/keys`]);
    here.hide();
    assert.equal(met.length, 1, how);
  }
});

test("nobody is asked for keys before a yes, or where nothing waits", async () => {
  const here = page();
  const { device, asked } = await inRelayedPage(here, { asking: () => Promise.reject(new Error("no network")) });
  await device.upload();
  here.hide();
  here.show();
  await rest();
  assert.deepEqual(asked, []);
  await device.submit({ maps: 12 });
  await rest();
  assert.equal(asked.length, 1);
  // Who did not answer is left in peace.
  here.hide();
  here.show();
  await rest();
  assert.equal(asked.length, 1);
});

test("where a relay is required and none is named, nothing leaves with the page", async () => {
  const here = page();
  const { met, fetch } = collecting();
  const options = { ledger: new MemoryLedger(), url: URL, fetch, environment: here.environment };
  const device = await Device.open(RELAYED, options);
  await device.enable();
  device.uploadOnHide();
  assert.equal((await device.submit({ maps: 12 })).code, "done");
  here.hide();
  here.leave();
  await rest();
  assert.equal(met.length, 0);
  assert.equal((await device.upload()).code, "relay-required");
});

test("who ends it hears nothing more, and where there is no page nothing happens", async () => {
  const here = page();
  const { met, fetch } = collecting();
  const { device, end } = await inPage(here, { fetch });
  assert.equal(device.uploadOnHide(), end, "asked again it listens once");
  await device.submit({ maps: 12 });
  end();
  here.leave();
  assert.equal(met.length, 0);
  assert.equal(here.channels.size, 0);

  const { device: plain } = await inPage({ environment: {} }, { fetch });
  await plain.submit({ maps: 12 });
  assert.equal((await plain.upload()).sent, 1);
  assert.equal(met[0].keepalive, false);
});
