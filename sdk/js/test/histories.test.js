/**
 * Histories that Python wrote and passes: calls, a clock and rounds, honest and hostile; the same codes, bytes, units.
 *
 * Where a relay takes part, an upload's requests are the same too: who is asked for what, and of each sealed report
 * which one it is, its key, its round and the report inside. Where a step names no record, no words or no id, reading
 * the record, drawing noise or asking for an id is a failure.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import { Device, fromHex, MemoryLedger, readDescription, readFrames, toHex } from "../keyveil.js";
import { seal } from "../sealed.js";
import { QUIET, stateOf, unitsIn, UNREADABLE } from "./support/campaigns.js";
import { keyIdOf, openedReport } from "./support/opening.js";
import { load, names } from "./support/vectors.js";

const failing = (what) => () => {
  throw new Error(`${what} must not happen`);
};

/** A network that gives the answers of a step, one a request, and then none; it notes what was asked. */
function scripted(answers = [], asked = []) {
  const left = [...answers];
  return async (url, { body }) => {
    asked.push({ url, reports: body && readFrames(new Uint8Array(body)).map(toHex) });
    const answer = left.shift();
    if (answer === undefined) throw new TypeError("no network");
    return new Response(answer.body ?? "", { status: answer.status, headers: answer.headers ?? {} });
  };
}

async function take(step, { description, ledger, caps, asked }) {
  const { at, words, id, collector, relay, segments, sealing_key: key } = step;
  const held = step.held ?? UNREADABLE;
  const device = await Device.open(description, {
    ...QUIET,
    ledger,
    segments,
    url: "https://collector.example",
    relay: relay && { url: relay, seal, key },
    campaignCap: caps.campaign,
    lifetimeCap: caps.lifetime,
    yearlyCap: caps.yearly,
    now: () => 1000 * at,
    entropy: words == null ? failing("drawing noise") : () => fromHex(words),
    ids: id == null ? failing("asking for an id") : () => fromHex(id),
    fetch: scripted(collector, asked),
  });
  return device[step.do](...(["report", "submit", "explain"].includes(step.do) ? [held] : []));
}

/** What there is to say of a history's sealed reports, of which no two are alike. */
function openers(privateKeys) {
  const keys = new Map(privateKeys.map((privateHex) => [keyIdOf(privateHex), privateHex]));
  const met = [];
  return (sealed, campaign) => {
    if (!met.includes(sealed)) met.push(sealed);
    const bytes = Buffer.from(sealed, "hex");
    const [key, round] = [toHex(bytes.subarray(1, 9)), bytes.readUInt16LE(9)];
    const report = openedReport(bytes, { privateHex: keys.get(key), campaign, round });
    return { which: met.indexOf(sealed), key, round, report };
  };
}

const told = ({ url, reports }, open) => {
  if (!reports) return { url };
  const [campaign, kind] = url.split("/").slice(-2);
  return kind === "sealed" ? { url, sealed: reports.map((one) => open(one, campaign)) } : { url, reports };
};

/** A step's outcome; what `Device.open` refuses is an outcome too. */
const outcomeOf = (step, context) =>
  take(step, context).catch((error) => ({ ok: false, code: error.code ?? String(error) }));

for (const name of names("histories/")) {
  const { what, secret, caps, steps, opening_keys: keys } = load(name);
  test(`${name}: ${what}`, async () => {
    const ledger = new MemoryLedger({ secret });
    let description = steps.find((step) => step.description)?.description;
    let open;
    for (const [place, step] of steps.entries()) {
      description = step.description ?? description;
      const where = `step ${place}: ${step.do}`;
      const asked = [];
      const outcome = await outcomeOf(step, { description, ledger, caps, asked });
      assert.equal(outcome.code, step.code, where);
      if (step.bytes != null) {
        assert.equal(outcome.bytes ? toHex(outcome.bytes) : queued(await stateOf(ledger)), step.bytes, where);
      }
      // A description that is refused belongs to no campaign.
      const { id: campaign } = await readDescription(description).catch(() => ({ id: null }));
      open ??= openers(keys ?? []);
      if (step.requests) {
        const said = asked.map((one) => told(one, open));
        assert.deepEqual(said, step.requests, where);
      }
      const state = await stateOf(ledger);
      if (step.units !== undefined) assert.equal(String(unitsIn(state, campaign)), String(step.units), where);
      if (step.units_in_all !== undefined) assert.equal(String(unitsIn(state)), String(step.units_in_all), where);
    }
  });
}

/** The report that was queued last. */
const queued = ({ queue }) => queue.at(-1)?.report;
