/** The twin of consumer.ts: the type checker finds each line that is marked, and no other. */
import { BrowserLedger, Device, type Code, type Ledger } from "keyveil";
import { seal, sealReport } from "keyveil/sealed";

const device: Device = await Device.connect("https://collector.example/v1/campaigns/ID");
await Device.connect(new URL("https://collector.example")); // wrong
await Device.connect("https://collector.example", { tokens: "kv-1" }); // wrong
await Device.connect("https://collector.example", { campaignCap: "4" }); // wrong
await Device.open({ format: "keyveil-round/1" }); // wrong
export const made = new Device({} as never, {} as never); // wrong
await device.submit({ maps: "often" }); // wrong
await device.submit(12); // wrong
await device.send({ maps: 12 }); // wrong
device.id = "another"; // wrong
const report = await device.report({ maps: 12 });
export const size = report.bytes.length; // wrong
export const reason = (await device.upload()).reason; // wrong
const code: Code = "off"; // wrong
export const ledger: Ledger = { update: async () => 1 }; // wrong
new BrowserLedger(1); // wrong
device.uploadOnHide().then(() => code); // wrong
await Device.connect("https://collector.example", { relay: "https://relay.example" }); // wrong
await Device.connect("https://collector.example", { relay: { url: "https://relay.example" } }); // wrong
await Device.connect("https://collector.example", { relay: { url: "https://relay.example", seal, key: 7 } }); // wrong
await sealReport(new Uint8Array(40), { key: "0f", campaign: "0f" }); // wrong
