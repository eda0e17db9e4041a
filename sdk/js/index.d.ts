/** What a user holds: key names and numbers. */
export type Held = Record<string, number> | ReadonlyMap<string, number>;

/** The description of a round: what Python's `Campaign.device_config` writes; a collector's `round` with its `campaign` inside. */
export interface Description {
  format: "keyveil-round/1" | "keyveil-round/2" | "keyveil-round/3";
  /** The campaign's canonical JSON; its SHA-256 is the campaign's id. */
  campaign: string;
  number: number;
  purpose: string;
  /** The protocol that opened the round, with its version, such as "auto/1". */
  protocol: string;
  /** Which part of [0, 1) is asked: two fractions in text. */
  group: [string, string];
  /** The codes that the round asks about, in their new order; null for all. */
  keys: number[] | null;
  mechanism: Parameters;
  /** In how many bins reports are counted by the word that rounds their values; not said in the first format. */
  dither?: number;
  /** How many values each attribute declares whose label a report carries in the clear; said in the third format. */
  labels?: number[];
}

/** A mechanism by name: its id, budgets as fractions in text, and sizes; never integers of its kernel. */
export interface Parameters {
  id: string;
  [parameter: string]: string | number | string[] | number[];
}

/** What a device may answer. Stable, and the same in Python. */
export type Code =
  | "done"
  | "not-enabled"
  | "disabled"
  | "do-not-track"
  | "expired"
  | "bad-description"
  | "unknown-version"
  | "unknown-mechanism"
  | "other-campaign"
  | "pinned"
  | "answered"
  | "other-group"
  | "other-wave"
  | "small-group"
  | "over-promise"
  | "over-campaign-cap"
  | "over-lifetime-cap"
  | "over-yearly-cap"
  | "bad-record"
  | "no-ledger"
  | "ledger-corrupt"
  | "ledger-unwritable"
  | "ledger-busy"
  | "no-collector"
  | "https-required"
  | "waiting"
  | "token-refused"
  | "refused"
  | "no-id"
  | "bad-token"
  | "relay-required"
  | "not-relayed"
  | "other-route"
  | "keys-differ"
  | "no-sealing"
  | "fault";

/** One plain sentence for each code. */
export const SENTENCES: Readonly<Record<Code, string>>;

/** What is refused: a device's code, or a collector's where a report or a batch is read. */
export class Refused extends Error {
  readonly code: Code | string;
  /** What the collector said, in its own words, with what it advises; empty where it said nothing. */
  readonly said: string;
  constructor(code: string, detail?: string, said?: string);
}

/** A fraction that is not negative; not reduced. */
export class Ratio {
  readonly n: bigint;
  readonly d: bigint;
  constructor(n: bigint, d?: bigint);
  static of(value: Ratio | bigint | number): Ratio;
  plus(other: Ratio | bigint | number): Ratio;
  minus(other: Ratio | bigint | number): Ratio;
  times(other: Ratio | bigint | number): Ratio;
  over(other: Ratio | bigint | number): Ratio;
  isBelow(other: Ratio | bigint | number): boolean;
  floor(): bigint;
  ceil(): bigint;
}

/** A fraction just below exp(x), for 0 <= x <= 32. */
export function expBelow(x: Ratio | bigint): Ratio;
/** ln(x) in units of 2^-192, rounded up, for x of at least 1. */
export function logAbove(x: Ratio | bigint): bigint;

/** A pair as mechanisms read it: a key's code and its value's level. */
export interface Pair {
  /** The key's place in the campaign's list, or in the round's. */
  code: number;
  /** How many of 2^64 words round the value up to +1. */
  level: bigint;
}

/** A pair whose key nobody listed: its bits, by the campaign's code, and the name by which it is known. */
export interface NamedPair extends Pair {
  bits: bigint;
  name: string;
}

/** A number, or a row of numbers, as the mechanism's layout sends it. */
export type Answer = number | ArrayLike<number>;

/** How an answer becomes bytes, whose number depends on the round alone. */
export interface Layout<Told extends Answer = Answer> {
  readonly nBytes: number;
  encode(answer: Told): Uint8Array;
  decode(payload: Uint8Array): Told;
}

/** Random words of 64 bits. */
export interface Words {
  readonly bytes: Uint8Array;
  readonly view: DataView;
  at(place: number): bigint;
  /** The words behind a place. */
  from(place: number): Words;
}

/** A mechanism that this device calibrated. */
export interface Mechanism {
  readonly id: string;
  readonly nWords: number;
  readonly layout: Layout;
  /** The counts of words out of 2^64 behind it (Python's `mechanisms.describe`). */
  readonly integers: { readonly shape: string };
  /** exp(epsilon), exactly. */
  readonly loss: Ratio;
  /** ln(loss) in units of 2^-192, rounded up: what an answer costs. */
  readonly price: bigint;
  /** Whether values reach the answer as signs that they were rounded to, by whatever word. */
  readonly tellsSigns?: boolean;
  /** Which word follows from the report's id instead of being drawn. */
  readonly publicWord?: number;
  /** Whether an answer is one that this word gives; there where `publicWord` is. */
  follows?(answer: Answer, word: bigint): boolean;
  /** The noised answer of a record. */
  perturb(record: Pair[], words: Words): Answer;
}

/** What a device reads of a campaign's text. */
export interface Campaign {
  readonly name: string;
  readonly owner: string;
  readonly purpose: string;
  /** What the campaign promises not to exceed, all rounds together. */
  readonly epsilon: number;
  /** The name of every key, `other` included. */
  readonly names: readonly string[];
  /** The code of every name. */
  readonly codes: ReadonlyMap<string, number>;
  /** What is asked about instead of keys, pairs of them or keys by segment; null where that is keys. */
  readonly crossing: Crossing | null;
  /** How many codes are asked about. */
  readonly nCodes: number;
  /** The public code of keys that nobody listed; null where they are listed. */
  readonly text: { read(text: string): { bits: bigint; name: string } } | null;
  /** By how many bits such a key is told; 0 where keys are listed. */
  readonly longest: number;
  /** Whether keys that are not asked about are averaged into the last name. */
  readonly other: boolean;
  readonly valueRange: readonly [number, number];
  /** In how many bins values are told where those beyond the range have the first and the last of them; else 0. */
  readonly beyond: number;
  /** Whether its collector hands out the ids of reports. */
  readonly issuesIds: boolean;
  /** Whether reports come sealed through a relay: never, at each device's choice, or always. */
  readonly relay: "none" | "allowed" | "required";
  /** The series of which it is a wave; null where it is asked once. */
  readonly series: Series | null;
  /** By what its users are told apart; null where nobody is. */
  readonly segments: Segments | null;
  /** Where a relay carries reports, a round asks at least one device in so many. */
  readonly oneIn: number;
  /** The moment from which it is over, in milliseconds since 1970. */
  readonly end: number;
}

/** How a record becomes one over what is asked about. */
export interface Crossing {
  /** How many codes records are crossed to. */
  readonly nCodes: number;
  /** The record of a user with this label. */
  of(record: Pair[], label: number): Pair[];
}

/** What a wave's text says of its series. */
export interface Series {
  /** The series' own canonical text; its SHA-256 is the series' id. */
  readonly text: string;
  /** How long a wave is. */
  readonly every: "day" | "week" | "month";
  readonly waves: number;
  /** In how many waves a device answers. */
  readonly answers: number;
  /** Which wave this is, from 1. */
  readonly wave: number;
  /** The moment from which this wave is over by the calendar, in milliseconds since 1970. */
  readonly ends: number;
}

/** By what a campaign tells its users apart. */
export interface Segments {
  /** Whether labels are told in the clear, a byte each beside the answer, or hidden in it. */
  readonly told: "clear" | "private";
  /** In the order of their names. */
  readonly attributes: readonly { readonly name: string; readonly values: readonly string[] }[];
}

/** What an application knows of its user, by the names of attributes; what is not known may be left out. */
export type Labels = Readonly<Record<string, string | null | undefined>>;

/** A round, checked and calibrated. */
export interface Round {
  /** The campaign's id. */
  readonly id: string;
  /** The first bytes of the id, as reports carry them. */
  readonly tag: Uint8Array;
  readonly number: number;
  readonly campaign: Campaign;
  /** The id of the series of which the campaign is a wave; null where it is asked once. */
  readonly series: string | null;
  /** Which part of [0, 1) is asked. */
  readonly group: readonly [Ratio, Ratio];
  /** From the campaign's codes to the round's; null where all keys are asked about. */
  readonly asked: ReadonlyMap<number, number> | null;
  /** From the names of keys that were found to the round's codes; null where none are named. */
  readonly named: ReadonlyMap<string, number> | null;
  readonly mechanism: Mechanism;
  /** In how many bins reports are counted by the word that rounds their values; 1 where none does. */
  readonly dither: number;
  /** How many values each attribute declares whose label a report carries in the clear. */
  readonly labels: readonly number[];
  readonly price: bigint;
  /** The hash of everything that the description says. */
  readonly pin: string;
}

/** An answer that was given, and paid for. */
export interface LedgerAnswer {
  campaign: string;
  round: number;
  /** The hash of what the round's description said; null where an older version answered. */
  pin: string | null;
  /** What it cost, in units of 2^-192. */
  units: string;
  /** When it was given, in milliseconds since 1970; null until the first change of a ledger that an older version kept. */
  at: number | null;
  /** The report in hexadecimal digits; null once it was wiped. */
  bytes: string | null;
  /** The report as it was sealed for a relay, in hexadecimal digits; null where it was not, or was wiped. */
  sealed: string | null;
}

/** How sending goes for a campaign. */
export interface LedgerRoute {
  /** Which way the campaign's reports go, for good; null before the first is to be sent. */
  way: "direct" | "relay" | null;
  failures: number;
  /** The moment before which nothing is sent, in milliseconds since 1970. */
  notBefore: number;
  sent: number;
  refused: number;
  dropped: number;
}

/** A series of which a wave was answered. */
export interface LedgerSeries {
  /** What all its answers may cost together, in units of 2^-192: booked as a whole. */
  units: string;
  /** The campaign that each wave was answered as, by the wave's number. */
  waves: Record<string, string>;
}

/** The ledger's document: JSON, kept as a whole. Whoever stores it need not look inside. */
export interface LedgerState {
  version: number;
  /** 64 hexadecimal digits, the device's own. */
  secret: string;
  /** The latest time ever seen, in milliseconds since 1970. */
  latest: number;
  consent: "unasked" | "given" | "withdrawn";
  answers: LedgerAnswer[];
  /** By the series' ids. */
  series: Record<string, LedgerSeries>;
  queue: { campaign: string; report: string }[];
  routes: Record<string, LedgerRoute>;
}

/** One document, changed in one transaction; a change that throws changes nothing, and a change may run twice. */
export interface Ledger {
  /** Yields what the change yields, once it is written. */
  update<T>(change: (state: LedgerState) => T): Promise<T>;
}

/** In memory: for tests. */
export class MemoryLedger implements Ledger {
  /** `secret`: 64 hexadecimal digits; drawn if not given. */
  constructor(options?: { secret?: string });
  update<T>(change: (state: LedgerState) => T): Promise<T>;
}

/** In IndexedDB, for browsers: one for all pages of an origin. */
export class BrowserLedger implements Ledger {
  /** `name` is the database's: "keyveil" if not given. */
  constructor(name?: string);
  update<T>(change: (state: LedgerState) => T): Promise<T>;
}

/** What seals and knows the way through a relay; `seal` of `keyveil/sealed` is the one there is. */
export type Seal = (round: Round, options: never) => object;

/** The way through a relay, another operator's than the collector. */
export interface Relay {
  /** Its address: https, or this machine. */
  url: string;
  /** What seals: `seal` of `keyveil/sealed`. */
  seal: Seal;
  /**
   * The collector's public key, 64 hexadecimal digits, as the application ships it. If not given, relay and collector
   * are both asked for keys, and reports are sealed to the newest that both list.
   */
  key?: string;
  /** Where the relay's devices need one: a token of the relay's own. */
  token?: string;
}

/** What an application may set; each has a default. */
export interface Options {
  /** The collector, where reports go if they go directly: https, or this machine. */
  url?: string;
  /** The relay through which reports go, sealed. */
  relay?: Relay;
  /** For a campaign whose devices need one: sent as `Authorization: Bearer`, to the collector and to no relay. */
  token?: string;
  /**
   * Where the ids of reports come from. If not given, drawn here, or asked for at `url` where the campaign issues them.
   * Where its text says that it does, the device's nonce for the round is passed, 32 hexadecimal digits.
   */
  ids?: (nonce?: string) => Uint8Array | Promise<Uint8Array>;
  /**
   * What this user is told apart by, such as `{ platform: "ios" }`. Of a campaign with clear segments every report says
   * it without noise; what the campaign does not name is not told.
   */
  segments?: Labels;
  /** Where it is kept what was answered and spent. A page has IndexedDB; in Node one must be given. */
  ledger?: Ledger;
  /** The most epsilon that one campaign may cost, or one series with all its waves; 4 if not given. */
  campaignCap?: number;
  /** The most epsilon that all campaigns together may ever cost; 16 if not given. `Infinity` only beside `yearlyCap`. */
  lifetimeCap?: number;
  /** The most epsilon that may be told in any 365 days, by the ledger's time, which never goes back; none if not given. */
  yearlyCap?: number;
  /** Reports that may wait; 100 if not given. The oldest make room, and are counted. */
  mostQueued?: number;
  /** The same in bytes; 1 MiB if not given. */
  mostQueuedBytes?: number;
  /** Reports in one upload; 50 if not given. */
  batch?: number;
  /** Milliseconds before the first new try; doubled every time, up to `longestWait`. */
  firstWait?: number;
  /** An hour if not given. */
  longestWait?: number;
  /** Milliseconds that an upload, a connection or an id may take in all; 10 seconds if not given. */
  timeout?: number;
  /** The way to the network: the platform's own. */
  fetch?: typeof fetch;
  /** The time in milliseconds since 1970. */
  now?: () => number;
  /** Where the page, `navigator` and `process` are looked for: `globalThis`. */
  environment?: object;
  /** The noise: the operating system's. Another source is for tests that script it; any other use ends all privacy. */
  entropy?: (size: number) => Uint8Array;
}

/**
 * What became of a call. `reason` is the code's sentence, `detail` what the collector said, in its own words. Neither
 * holds anything about the record.
 */
export type Outcome<T = object> =
  ({ ok: true; code: "done" } & T) | { ok: false; code: Code; reason: string; detail: string };

/** What a submitted record led to. */
export interface Submitted {
  /** Whether the answer repeats one that was given before; then the record was not read. */
  isRepeat: boolean;
  /** What was not taken as it was; null where nothing was read. */
  reading: Reading | null;
}

/**
 * The names of keys whose pairs were not taken as they were. As private as the record, and for the application on this
 * device alone: JSON and a console show nothing of it.
 */
export class Reading {
  constructor(campaign: Pick<Campaign, "codes" | "other" | "valueRange" | "beyond">, held: Held);
  /** Keys that the campaign does not name: left out, or averaged into `other` where it has that. */
  get unknown(): readonly string[];
  /** Keys whose value was NaN: left out. */
  get notNumbers(): readonly string[];
  /** Keys whose value was outside the campaign's range: it went to the nearer end. */
  get clamped(): readonly string[];
  /** The same in words, for this device's screen; nothing where all was taken as it was. */
  words(): string;
  toJSON(): string;
}

/** A report that the collector will never count, and why. */
export interface RefusedReport {
  /** The collector's word for it: see the error catalogue. */
  code: string;
  /** The same in words. */
  reason: string;
}

/** Where this device stands. Epsilons are rounded up. */
export interface Status {
  /** What the person said; or that they, or their browser, asked not to be tracked. */
  consent: "unasked" | "given" | "withdrawn" | "do not track";
  /** On this campaign, by all its rounds; of a wave on its series, by all its answers. */
  spent: number;
  /** What the campaign promises, or its series: this device never spends more on it. */
  promised: number;
  /** On all campaigns together; a series counts as a whole from its first answer on. */
  spentInAll: number;
  /** The most that all campaigns together can ever cost; infinite where only a year is bounded. */
  worstCase: number;
  /** What was told in the last 365 days, by the ledger's time. */
  spentInAYear: number;
  /** The device's own cap on one campaign. */
  campaignCap: number;
  /** The device's own cap on all campaigns together. */
  lifetimeCap: number;
  /** The device's own cap on any 365 days; null where there is none. */
  yearlyCap: number | null;
  /** The id of the series of which the campaign is a wave; null where it is asked once. */
  series: string | null;
  /** Rounds of this campaign that have an answer. */
  answers: number;
  /** Which way the reports of this campaign go, for good; null before the first is to be sent. */
  route: "direct" | "relay" | null;
  /** Reports of this campaign that wait. */
  queued: number;
  /** Reports of this campaign that the collector counted. */
  sent: number;
  /** Reports of this campaign that it refused. */
  refused: number;
  /** Reports of this campaign that made room in the queue, unsent. */
  dropped: number;
}

/** One round of one campaign on one device: answered once. Only `open` and `connect` throw; the rest yield outcomes. */
export class Device {
  private constructor(round: never, options: never);
  /** A device for a description that the application has; throws `Refused` for one that is not answered. */
  static open(description: Description, options?: Options): Promise<Device>;
  /**
   * A device for the open round of the campaign at https://HOST/v1/campaigns/ID, which is believed only if its hash is
   * that id. Throws `Refused`: `waiting` where no round is open or nobody answers.
   */
  static connect(url: string, options?: Options): Promise<Device>;
  /** The campaign's id. */
  readonly id: string;
  /** What one answer costs, as an epsilon rounded up. */
  readonly price: number;
  /** The person said yes. */
  enable(): Promise<Outcome>;
  /** The person said no: queue and kept answers of all campaigns are wiped, what was spent is not. */
  disable(): Promise<Outcome>;
  /** The answer as bytes for the caller: made, paid for and kept; nothing is queued or sent. */
  report(held: Held): Promise<Outcome<{ bytes: Uint8Array }>>;
  /** The same, queued for `upload`; needs the person's yes. */
  submit(held: Held): Promise<Outcome<Submitted>>;
  /** Sends what waits, for at most `timeout` milliseconds; `refused` says which reports will never count, and why. */
  upload(timeout?: number): Promise<Outcome & { sent: number; refused: RefusedReport[] }>;
  /**
   * In a page: from now on what waits is sent when the page is hidden or left, by a request that outlives it.
   * Yields a function that ends this. Where there is no page nothing happens.
   */
  uploadOnHide(): () => void;
  /** What was spent, what was promised, and what waits. */
  status(): Promise<Outcome<Status>>;
  /** For this screen, in words: what is true, what was sent, what can be guessed from it. */
  explain(held: Held): Promise<Outcome<{ text: string }>>;
}

/** Ids from a campaign that hands them out; a new answer is refused (`no-id`) where it does not. */
export function issuedIds(source: {
  url: string;
  campaign: string;
  token?: string;
  fetch?: typeof fetch;
  timeout?: number;
}): (nonce?: string) => Promise<Uint8Array>;

/** Whether the person, or their browser, asked not to be tracked: DO_NOT_TRACK, `doNotTrack`, Global Privacy Control. */
export function asksNotToTrack(environment?: object): boolean;
/** The round that a description describes, checked and calibrated; throws `Refused`. */
export function readDescription(description: Description): Promise<Round>;
/** The record that a round asks about; throws `Refused` for what maps no names to numbers. */
export function readRecord(round: Round, held: Held, label?: number): Pair[];
/** How many of 2^64 words round a value in [-1, 1] up to +1. */
export function levelOf(value: number): bigint;
/** The mechanism that parameters name, for so many keys. */
export function mechanismOf(parameters: Parameters, nKeys: number): Mechanism;
/** The bucket of a symbol under a cohort's hash. */
export function bucketOf(cohort: number, symbol: number, buckets: number): number;
/** A report without a device or its ledger: for simulations and tests. */
export function makeReport(
  round: Round,
  record: Pair[],
  words: Uint8Array,
  reportId: Uint8Array,
  labels?: readonly number[],
): Promise<Uint8Array>;
/** The answer in a report to a round; throws `Refused` with the code that a collector gives. */
export function checkReport(round: Round, report: Uint8Array): Promise<Answer>;
/** The parts of a report. */
export function readReport(report: Uint8Array): {
  campaign: Uint8Array;
  round: number;
  report_id: Uint8Array;
  payload: Uint8Array;
};
/** A report for people. */
export function reportToJson(report: Uint8Array): string;
/** The report that such a text holds. */
export function reportFromJson(text: string): Uint8Array;
/** Reports as the body of one upload. */
export function toFrames(reports: Uint8Array[]): Uint8Array;
/** The reports in such a body. */
export function readFrames(batch: Uint8Array, bounds?: { largest?: number; most?: number }): Uint8Array[];
/** The word that follows from a report's header, by which its cohort or index is decided. */
export function publicWord(tag: Uint8Array, round: number, reportId: Uint8Array): Promise<bigint>;
/** Bytes from the operating system's generator. */
export function randomBytes(size: number): Uint8Array;
/** Small hexadecimal digits. */
export function toHex(bytes: Uint8Array): string;
/** Bytes from hexadecimal digits. */
export function fromHex(text: string): Uint8Array;
