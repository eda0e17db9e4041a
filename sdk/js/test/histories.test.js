/**
 * Histories that Python wrote and passes: calls, a clock and rounds, honest and hostile; the same codes, bytes, units.
 *
 * Where a step names no record, no words or no id, reading the record, drawing noise or asking for an id is a failure.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import { Device, fromHex, MemoryLedger, readDescription, toHex } from "../keyveil.js";
import { QUIET, stateOf, unitsIn, UNREADABLE } from "./support/campaigns.js";
import { load, names } from "./support/vectors.js";

const failing = (what) => () => {
  throw new Error(`${what} must not happen`);
};

/** A collector that gives the answers of a step, one a request, and then none. */
function scripted(answers = []) {
  const left = [...answers];
  return async () => {
    const answer = left.shift();
    if (answer === undefined) throw new TypeError("no network");
    return new Response(answer.body ?? "", { status: answer.status, headers: answer.headers ?? {} });
  };
}

async function take(step, { description, ledger, caps }) {
  const { at, words, id, collector } = step;
  const held = step.held ?? UNREADABLE;
  const device = await Device.open(description, {
    ...QUIET,
    ledger,
    url: "https://collector.example",
    campaignCap: caps.campaign,
    lifetimeCap: caps.lifetime,
    now: () => 1000 * at,
    entropy: words == null ? failing("drawing noise") : () => fromHex(words),
    ids: id == null ? failing("asking for an id") : () => fromHex(id),
    fetch: scripted(collector),
  });
  return device[step.do](...(["report", "submit", "explain"].includes(step.do) ? [held] : []));
}

/** A step's outcome; what `Device.open` refuses is an outcome too. */
const outcomeOf = (step, context) =>
  take(step, context).catch((error) => ({ ok: false, code: error.code ?? String(error) }));

for (const name of names("histories/")) {
  const { what, secret, caps, steps } = load(name);
  test(`${name}: ${what}`, async () => {
    const ledger = new MemoryLedger({ secret });
    let description = steps.find((step) => step.description)?.description;
    for (const [place, step] of steps.entries()) {
      description = step.description ?? description;
      const where = `step ${place}: ${step.do}`;
      const outcome = await outcomeOf(step, { description, ledger, caps });
      assert.equal(outcome.code, step.code, where);
      if (step.bytes != null) {
        assert.equal(outcome.bytes ? toHex(outcome.bytes) : queued(await stateOf(ledger)), step.bytes, where);
      }
      // A description that is refused belongs to no campaign.
      const { id: campaign } = await readDescription(description).catch(() => ({ id: null }));
      const state = await stateOf(ledger);
      if (step.units !== undefined) assert.equal(String(unitsIn(state, campaign)), String(step.units), where);
      if (step.units_in_all !== undefined) assert.equal(String(unitsIn(state)), String(step.units_in_all), where);
    }
  });
}

/** The report that was queued last. */
const queued = ({ queue }) => queue.at(-1)?.report;
