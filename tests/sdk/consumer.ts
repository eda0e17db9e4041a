/** An application as somebody writes it: every verb, every outcome read both ways. Only the type checker runs it. */
import {
  BrowserLedger,
  Device,
  MemoryLedger,
  Refused,
  SENTENCES,
  issuedIds,
  type Code,
  type Held,
  type Ledger,
  type LedgerState,
  type Options,
  type Outcome,
  type Relay,
  type Status,
} from "keyveil";
import { FileLedger } from "keyveil/node";
import { seal, sealReport, type SealedTo } from "keyveil/sealed";

class OwnLedger implements Ledger {
  #inner = new MemoryLedger();
  update<T>(change: (state: LedgerState) => T): Promise<T> {
    return this.#inner.update(change);
  }
}

export async function connect(url: string, token?: string): Promise<Device | Code> {
  const ledgers: Ledger[] = [new BrowserLedger("app"), new FileLedger("ledger.json"), new OwnLedger()];
  const options: Options = { token, ledger: ledgers[0], campaignCap: 2, lifetimeCap: 8, timeout: 5_000 };
  try {
    return await Device.connect(url, options);
  } catch (error) {
    if (error instanceof Refused && error.code === "waiting") return "waiting";
    throw error;
  }
}

export async function use(device: Device, held: Held): Promise<string> {
  const stop: () => void = device.uploadOnHide();
  const agreed: Outcome = await device.enable();
  if (!agreed.ok) return SENTENCES[agreed.code];
  const submitted = await device.submit(held);
  if (!submitted.ok) return submitted.reason + submitted.detail;
  if (submitted.isRepeat || submitted.reading?.unknown.length) return submitted.reading?.words() ?? "";
  const uploaded = await device.upload(3_000);
  const why: string[] = uploaded.refused.map(({ code, reason }) => `${code}: ${reason}`);
  const status: Outcome<Status> = await device.status();
  const spent: number = status.ok ? status.spent + status.promised + status.queued : Number.NaN;
  const report = await device.report(new Map([["maps", 12]]));
  const size: number = report.ok ? report.bytes.length : 0;
  const told = await device.explain({ maps: 12, mail: 3.5 });
  stop();
  await device.disable();
  return [...why, spent + size + device.price, device.id, told.ok ? told.text : told.code].join();
}

export const ids: NonNullable<Options["ids"]> = issuedIds({ url: "https://collector.example", campaign: "0f" });

const relay: Relay = { url: "https://relay.example", seal, key: "0f".repeat(32) };

export async function throughRelay(url: string): Promise<string> {
  const device: Device = await Device.connect(url, { relay });
  const status = await device.status();
  const way: "direct" | "relay" | null = status.ok ? status.route : null;
  const to: SealedTo = { key: "0f".repeat(32), campaign: device.id, round: 1 };
  return way ?? String((await sealReport(new Uint8Array(40), to)).length);
}
