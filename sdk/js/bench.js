/** Microseconds a report takes, randomness and encoding included; prints JSON. Called by bench/client.py. */
import { readFileSync } from "node:fs";
import { makeReport, randomBytes, readDescription, readRecord } from "./keyveil.js";

const results = [];
for (const { name, description, held, runs } of JSON.parse(readFileSync(0, "utf8"))) {
  const round = await readDescription(description);
  const record = readRecord(round, held);
  const once = () => makeReport(round, record, randomBytes(8 * round.mechanism.nWords), randomBytes(16));
  for (let run = 0; run < 1000; run++) await once();
  const blocks = [];
  for (let block = 0; block < 9; block++) {
    const start = performance.now();
    for (let run = 0; run < runs; run++) await once();
    blocks.push((1000 * (performance.now() - start)) / runs);
  }
  results.push({ name, keys: round.campaign.names.length, microseconds: blocks.sort((a, b) => a - b)[4] });
}
console.log(JSON.stringify(results));
