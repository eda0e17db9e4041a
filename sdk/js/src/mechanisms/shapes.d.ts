/** What passes between parameters, integers and kernels: one interface a shape of reports. */
import type { Answer, Layout, Pair } from "../../index.d.ts";
import type { Ratio } from "../numerics/exact.js";
import type { Words } from "../numerics/words.js";

/** A mechanism's parameters once they are read; each has those that its row of `PARAMETERS` names, and the keys. */
export interface Checked {
  n_keys: number;
  epsilon: Ratio;
  key_epsilon: Ratio;
  sign_epsilon: Ratio;
  allocation: string;
  pairs_per_user: number;
  bins: number;
  width: number;
  buckets: number;
  occupied: number;
  cohorts: number;
  chosen: number;
  /** How many of 2^32 keys have both signs in one bucket, or never, where it is negative. */
  tie: number;
  largest: number;
  most: number;
  starts: number[];
  popular: number[];
  levels: bigint[];
  /** How many bits a key has that nobody listed, how many are told, and in how many of them the hash is linear. */
  longest: number;
  bits: number;
  step: number;
}

// --- integers: counts of words out of 2^64 ---

export interface SignCounts {
  keep: bigint;
  flip: bigint;
  fake: bigint;
}

export interface WindowSizes {
  n_in: number;
  width: number;
  step: number;
}

export interface ValueCounts {
  window: WindowSizes;
  near: bigint;
  far: bigint;
  fake: bigint;
}

export interface ResponseIntegers {
  shape: "response";
  n_symbols: number;
  lie: bigint;
}

export interface BitsIntegers {
  shape: "bits";
  n_symbols: number;
  own: bigint;
  other: bigint;
}

export type OracleIntegers =
  | ResponseIntegers
  | BitsIntegers
  | { shape: "selection"; n_symbols: number; chosen: number; lie: bigint }
  | { shape: "hashed"; n_symbols: number; cohorts: number; response: ResponseIntegers }
  | { shape: "wave"; window: WindowSizes; near: bigint; far: bigint };

export type EncoderIntegers =
  | { shape: "own-key"; n_keys: number }
  | { shape: "record-size"; n_keys: number; largest: number }
  | { shape: "size-class"; n_keys: number; starts: number[] }
  | { shape: "own-sign"; n_keys: number }
  | { shape: "popular-size"; n_keys: number; popular: number[]; most: number; starts: number[] };

export type Integers =
  | { shape: "signed-unary"; n_keys: number; pairs_per_user: number; channel: SignCounts }
  | { shape: "signed-response"; n_keys: number; pairs_per_user: number; channel: SignCounts }
  | { shape: "sampled-index"; n_keys: number; channel: SignCounts }
  | { shape: "unary-values"; n_keys: number; pairs_per_user: number; channel: ValueCounts }
  | { shape: "indexed-boundary"; n_keys: number; channel: ValueCounts }
  | { shape: "indexed-boundary-bits"; n_keys: number; held: bigint; bits: BitsIntegers }
  | BroadcastIntegers
  | BucketIntegers
  | PrefixBucketIntegers
  | { shape: "apart"; n_keys: number; pairs_per_user: number; oracle: OracleIntegers; sign: { keep: bigint } }
  | { shape: "encoded-oracle"; encoder: EncoderIntegers; oracle: OracleIntegers };

export interface BroadcastIntegers {
  shape: "broadcast-index";
  n_keys: number;
  held: bigint;
  held_keep: bigint;
  fake: bigint;
  fake_keep: bigint;
  levels: bigint[];
}

export interface BucketIntegers {
  shape: "bucket";
  n_keys: number;
  pairs_per_user: number;
  buckets: number;
  tie: number;
  cohorts: number;
  low: bigint;
  high: bigint;
}

export interface PrefixBucketIntegers {
  shape: "prefix-bucket";
  longest: number;
  bits: number;
  step: number;
  pairs_per_user: number;
  buckets: number;
  cohorts: number;
  low: bigint;
  high: bigint;
}

// --- what is made of them ---

/** What kernels and oracles have in common: how many words they take, their loss, and how an answer is sent. */
interface Telling {
  nWords: number;
  layout: Layout;
  loss: Ratio;
  /** Which word follows from the report's id, and whether an answer is one that this word gives. */
  publicWord?: number;
  follows?(answer: Answer, word: bigint): boolean;
}

export interface Kernel extends Telling {
  /** Where the first word draws an index: how many there are, and what can be said of each. */
  nKeys?: number;
  perIndex?: number;
  /** Whether values reach the answer as signs that they were rounded to. */
  tellsSigns?: boolean;
  perturb(record: Pair[], words: Words): Answer;
}

export interface Oracle<Told extends Answer = Answer> extends Telling {
  nSymbols: number;
  perturb(symbol: number, words: Words): Told;
}

export interface Encoder {
  nSymbols: number;
  draw(record: Pair[], word: bigint): number;
}

/** A maker for every member of a union, by its `shape`. */
export type ByShape<Union extends { shape: string }, Made> = {
  [Shape in Union["shape"]]: (integers: Extract<Union, { shape: Shape }>) => Made;
};
