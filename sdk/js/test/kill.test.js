/** A process that reports in a loop is killed at any moment; its ledger never knows less than the world. */
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { mkdtempSync, readFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { Device, FileLedger } from "../keyveil.js";

const KILLS = Number(process.env.KEYVEIL_KILLS ?? 20);
const module = new URL("../keyveil.js", import.meta.url).href;
const vectors = new URL("../../../tests/vectors/pckv-ue.json", import.meta.url);
const config = JSON.parse(readFileSync(vectors, "utf8")).suites[0].config;
const caps = { campaignCap: 1e9, lifetimeCap: 1e9, environment: {} };

/** Says every report aloud once `report` has returned it, as an app that sends would. */
const LOOP = `
  import { Device, FileLedger } from ${JSON.stringify(module)};
  const caps = ${JSON.stringify(caps)};
  const device = await Device.open(${JSON.stringify(config)}, { ...caps, ledger: new FileLedger(process.argv[1]) });
  const agreed = await device.enable();
  if (!agreed.ok) throw new Error(agreed.reason);
  for (let step = 0; ; step++) {
    const outcome = await device.report({ maps: step % 3 ? Math.random() * 60 : 30 });
    if (!outcome.ok) throw new Error(outcome.reason);
    process.stdout.write(Buffer.from(outcome.report).toString("hex") + "\\n");
  }
`;

/** What a process said before it was killed. */
function runAndKill(path, wait) {
  return new Promise((done, failed) => {
    const child = spawn(process.execPath, ["--input-type=module", "-e", LOOP, path]);
    let said = "";
    let complaint = "";
    child.stdout.on("data", (data) => {
      if (said === "") setTimeout(() => child.kill("SIGKILL"), wait);
      said += data;
    });
    child.stderr.on("data", (data) => (complaint += data));
    child.on("close", (_, signal) =>
      signal === "SIGKILL" ? done(said.split("\n").slice(0, -1)) : failed(new Error(complaint)),
    );
  });
}

test(`${KILLS} kills: nothing that was said is unknown to the ledger`, async () => {
  const path = join(mkdtempSync(join(tmpdir(), "keyveil-")), "ledger.json");
  const said = new Set();
  for (let kill = 0; kill < KILLS; kill++) {
    for (const report of await runAndKill(path, Math.random() * 60)) said.add(report);
    const device = await Device.open(config, { ...caps, ledger: new FileLedger(path) });
    const status = await device.status();
    assert.ok(status.ok, status.reason);
    assert.ok(status.spent >= said.size - 1e-9, `${status.spent} spent for ${said.size} reports`);
  }
  const ids = new Set([...said].map((report) => report.slice(-64)));
  assert.equal(ids.size, said.size);
  assert.ok(said.size > KILLS);
});
