/** What a user holds: key names and numbers. */
export type Held = Record<string, number> | ReadonlyMap<string, number>;

/** What Python's `Campaign.device_config` writes. */
export interface Config {
  format: "keyveil-device/1";
  /** The campaign's canonical JSON; its SHA-256 is the campaign's id. */
  campaign: string;
  round: number;
  /** The codes that the round asks about, in their new order; null for all. */
  keys: number[] | null;
  mechanism: MechanismDescription;
}

/** A mechanism's integers; counts of words out of 2^64 are decimal text. */
export interface MechanismDescription {
  shape: string;
  [field: string]: unknown;
}

export interface Pair {
  code: number;
  /** How many of 2^64 words round the value up to +1. */
  level: bigint;
}

/** A number, or a row of numbers, as the mechanism's layout sends it. */
export type Answer = number | number[] | Uint8Array;

export interface Mechanism {
  readonly nWords: number;
  readonly layout: { readonly nBytes: number; encode(answer: Answer): Uint8Array; decode(payload: Uint8Array): Answer };
  /** exp(epsilon), exactly: numerator and denominator. */
  readonly loss: readonly [bigint, bigint];
  /** Which word follows from the report's id instead of being drawn. */
  readonly publicWord?: number;
}

export interface Campaign {
  readonly id: string;
  readonly tag: Uint8Array;
  readonly round: number;
  /** What one answer costs, from the mechanism's integers. */
  readonly epsilon: number;
  readonly names: readonly string[];
  readonly mechanism: Mechanism;
}

/** What is refused, with a stable code. */
export class Refused extends Error {
  readonly code: string;
  constructor(code: string, detail: string);
}

/** The ledger's document; only `Device` looks inside. */
export type LedgerState = Record<string, unknown>;

/** One document, changed in one transaction; a change that throws changes nothing. */
export interface Ledger {
  update<T>(change: (state: LedgerState) => T): Promise<T>;
}

/** In memory: for tests. */
export class MemoryLedger implements Ledger {
  update<T>(change: (state: LedgerState) => T): Promise<T>;
}

/** In a file, for Node. */
export class FileLedger implements Ledger {
  constructor(path: string);
  update<T>(change: (state: LedgerState) => T): Promise<T>;
}

/** In IndexedDB, for browsers. */
export class BrowserLedger implements Ledger {
  constructor(name?: string);
  update<T>(change: (state: LedgerState) => T): Promise<T>;
}

export interface Options {
  /** Where reports go: https, or this machine. */
  url?: string;
  /** For a campaign whose devices need one: sent as `Authorization: Bearer`. */
  token?: string;
  /** Where the ids of reports come from; drawn here if not given. */
  ids?: () => Uint8Array | Promise<Uint8Array>;
  ledger?: Ledger;
  /** The most epsilon that one campaign may cost; 4 if not given. */
  campaignCap?: number;
  /** The most epsilon that all campaigns together may ever cost; 16 if not given. */
  lifetimeCap?: number;
  mostQueued?: number;
  mostQueuedBytes?: number;
  /** Reports in one upload. */
  batch?: number;
  /** Milliseconds before the first new try; doubled every time, up to `longestWait`. */
  firstWait?: number;
  longestWait?: number;
  timeout?: number;
  fetch?: typeof fetch;
  now?: () => number;
  /** Where `navigator` and `process` are looked for. */
  environment?: object;
}

/** Ids from a campaign that hands them out; `Device.report` answers `no-id` where it does not. */
export function issuedIds(source: { url: string; campaign: string; token: string; fetch?: typeof fetch; timeout?: number }): () => Promise<Uint8Array>;

export type Outcome<T> = ({ ok: true } & T) | { ok: false; code: string; reason: string };

/** A report that the collector will never count, and why. */
export interface RefusedReport {
  code: string;
  reason: string;
}

export interface Status {
  enabled: boolean;
  spent: number;
  spentInAll: number;
  campaignCap: number;
  lifetimeCap: number;
  queued: number;
  dropped: number;
  refused: number;
}

/** One campaign on one device; off until `enable()`. */
export class Device {
  private constructor();
  static open(config: Config, options?: Options): Promise<Device>;
  readonly id: string;
  enable(): Promise<Outcome<object>>;
  disable(): Promise<Outcome<object>>;
  report(held: Held): Promise<Outcome<{ report: Uint8Array; spent: number }>>;
  send(): Promise<Outcome<{ sent: number; refused: RefusedReport[] }>>;
  status(): Promise<Outcome<Status>>;
  explain(held: Held): Promise<Outcome<{ truth: string; sent: string; guess: string; text: string }>>;
}

export function asksNotToTrack(environment?: object): boolean;
export function readConfig(config: Config): Promise<Campaign>;
export function readRecord(campaign: Campaign, held: Held): Pair[];
export function encodeRecord(campaign: Campaign, held: Held): Pair[];
export function levelOf(value: number): bigint;
export function buildMechanism(description: MechanismDescription): Mechanism;
export function epsilonOf(loss: readonly [bigint, bigint]): number;
export function bucketOf(cohort: number, symbol: number, buckets: number): number;
export function makeReport(campaign: Campaign, record: Pair[], words: Uint8Array, reportId: Uint8Array): Promise<Uint8Array>;
export function checkReport(campaign: Campaign, report: Uint8Array): Promise<Answer>;
export function readReport(report: Uint8Array): {
  campaign: Uint8Array;
  round: number;
  report_id: Uint8Array;
  payload: Uint8Array;
};
export function reportToJson(report: Uint8Array): string;
export function reportFromJson(text: string): Uint8Array;
export function toFrames(reports: Uint8Array[]): Uint8Array;
export function readFrames(batch: Uint8Array, bounds?: { largest?: number; most?: number }): Uint8Array[];
export function publicWord(tag: Uint8Array, round: number, reportId: Uint8Array): Promise<bigint>;
export function randomBytes(size: number): Uint8Array;
export function toHex(bytes: Uint8Array): string;
export function fromHex(text: string): Uint8Array;
