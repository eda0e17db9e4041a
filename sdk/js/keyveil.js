/**
 * keyveil for devices: browsers and Node 18+, no dependencies.
 *
 * The truth never leaves this file: a record goes in, one noised report of fixed length comes out. What is
 * drawn, and how it becomes bytes, is the same as in Python, byte for byte (tests/vectors). Probabilities are
 * integers out of 2^64 that the campaign's config carries; their loss is computed here and a config that
 * spends more than it says is refused before any data is read.
 *
 * From the top: refusals, words, records, layouts, reports and batches, mechanisms, configs, ledgers, Device.
 */

const webCrypto = globalThis.crypto ?? (await import("node:crypto")).webcrypto;

// --- refusals ---

/** What is refused, with a stable code. Messages never hold a private value. */
export class Refused extends Error {
  constructor(code, detail) {
    super(`refused (${code}): ${detail}`);
    this.name = "Refused";
    this.code = code;
  }
}

function refuse(code, detail) {
  throw new Refused(code, detail);
}

// --- words ---

const WORDS = 1n << 64n;
const FULL_LEVEL = WORDS;
const HALF_LEVEL = WORDS >> 1n;
// Web Crypto hands over at most so many bytes at once.
const MOST_RANDOM_BYTES = 65536;

/** Bytes from the operating system's generator. */
export function randomBytes(size) {
  const bytes = new Uint8Array(size);
  for (let at = 0; at < size; at += MOST_RANDOM_BYTES) {
    webCrypto.getRandomValues(bytes.subarray(at, at + MOST_RANDOM_BYTES));
  }
  return bytes;
}

async function sha256(...parts) {
  return new Uint8Array(await webCrypto.subtle.digest("SHA-256", concat(parts)));
}

/** 64-bit words, little endian, behind their bytes. */
class Words {
  constructor(bytes) {
    this.bytes = bytes;
    this.view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  }

  at(place) {
    return this.view.getBigUint64(8 * place, true);
  }

  from(place) {
    return new Words(this.bytes.subarray(8 * place));
  }
}

/** One of `choices` equally likely numbers. */
function pick(word, choices) {
  return Number((word * BigInt(choices)) >> 64n);
}

const ceilDiv = (numerator, denominator) => (numerator + denominator - 1n) / denominator;
const wordsBefore = (choice, choices) => ceilDiv(BigInt(choice) << 64n, BigInt(choices));
const wordsFor = (choice, choices) => wordsBefore(choice + 1, choices) - wordsBefore(choice, choices);

/**
 * For each threshold, a plane whose k-th bit is set where the k-th number is not below it.
 *
 * The bits of n words, one after the other, are read as 64 planes of n bits; bit i of the k-th number is bit
 * k of plane i. As many steps whatever the bits are.
 */
function atLeast(words, n, thresholds) {
  const { view } = words;
  const packed = new Uint32Array(2 * n + 1);
  for (let at = 0; at < 2 * n; at++) packed[at] = view.getUint32(4 * at, true);
  const width = (n + 31) >>> 5;
  const held = thresholds.map(() => new Uint32Array(width).fill(0xffffffff));
  const plane = new Uint32Array(width);
  for (let i = 0; i < 64; i++) {
    const shift = (i * n) & 31;
    for (let j = 0, at = (i * n) >>> 5; j < width; j++, at++) {
      plane[j] = shift ? (packed[at] >>> shift) | (packed[at + 1] << (32 - shift)) : packed[at];
    }
    for (let t = 0; t < thresholds.length; t++) {
      const one = held[t];
      if ((thresholds[t] >> BigInt(i)) & 1n) for (let j = 0; j < width; j++) one[j] &= plane[j];
      else for (let j = 0; j < width; j++) one[j] |= plane[j];
    }
  }
  return held;
}

const bitOf = (plane, place) => (plane[place >>> 5] >>> (place & 31)) & 1;

// --- records ---

const DUMMY = Object.freeze({ code: -1, level: HALF_LEVEL });

/** The level of a value in [-1, 1]: how many of 2^64 words round it up to +1. */
export function levelOf(value) {
  return BigInt(Math.trunc((Math.min(Math.max(value, -1), 1) + 1) * 2 ** 63));
}

/**
 * The pairs of what a user holds, ordered by code.
 *
 * Values beyond the range go to the nearer end, NaN is left out, an unknown key is left out or averaged into
 * `other`. What is no number is refused by its rule, never by its value.
 */
export function encodeRecord(campaign, held) {
  const units = new Map();
  const [low, high] = campaign.value_range;
  for (const [name, value] of held instanceof Map ? held : Object.entries(held)) {
    if (typeof name !== "string") refuse("bad-record", "every key of a record must be text");
    if (typeof value !== "number") refuse("bad-record", "every value of a record must be a number");
    const code = campaign.codes.get(name) ?? (campaign.other ? campaign.n_keys - 1 : undefined);
    if (code === undefined || Number.isNaN(value)) continue;
    const unit = 2 * ((Math.min(Math.max(value, low), high) - low) / (high - low)) - 1;
    if (units.has(code)) units.get(code).push(unit);
    else units.set(code, [unit]);
  }
  return [...units]
    .map(([code, values]) => {
      // Added in one order, so that every device and language rounds alike.
      const total = values.sort((a, b) => a - b).reduce((sum, unit) => sum + unit, 0);
      return { code, level: levelOf(total / values.length) };
    })
    .sort((a, b) => a.code - b.code);
}

/** The sampled pair, or DUMMY. */
function samplePair(record, pairsPerUser, word) {
  return record[pick(word, Math.max(record.length, pairsPerUser))] ?? DUMMY;
}

const roundToSign = (level, word) => (word < level ? 1 : -1);
const levelIn = (record, code) => record.find((pair) => pair.code === code)?.level;

// --- layouts ---

const ABSENT = 0;
const PLUS = 1;
const MINUS = 2;

function checkLength(payload, expected) {
  if (payload.length !== expected) {
    refuse("wrong-length", `expected a payload of ${expected} bytes, got ${payload.length}`);
  }
}

/** `length` numbers below `size`, each in the same few bits, the first in the lowest. */
class Row {
  constructor(length, size, bits = Math.max(1, bitLength(size - 1))) {
    this.length = length;
    this.size = size;
    this.bits = bits;
    this.nBytes = Math.ceil((bits * length) / 8);
  }

  encode(answer) {
    const payload = new Uint8Array(this.nBytes);
    for (let place = 0, at = 0; place < this.length; place++, at += this.bits) {
      // Exact in a float: a number has at most 45 bits and is shifted by at most seven.
      for (let rest = answer[place] * 2 ** (at & 7), byte = at >>> 3; rest >= 1; rest = Math.floor(rest / 256)) {
        payload[byte++] |= rest & 255;
      }
    }
    return payload;
  }

  decode(payload) {
    checkLength(payload, this.nBytes);
    const answer = new Array(this.length);
    for (let place = 0, at = 0; place < this.length; place++) {
      let number = 0;
      for (let bit = 0; bit < this.bits; bit++, at++) number += ((payload[at >>> 3] >>> (at & 7)) & 1) * 2 ** bit;
      if (number >= this.size) refuse("not-canonical", `expected numbers below ${this.size}`);
      answer[place] = number;
    }
    const used = this.bits * this.length;
    if (used & 7 && payload[this.nBytes - 1] >>> (used & 7)) refuse("not-canonical", "bits are set behind the last number");
    return answer;
  }
}

/** One number below `size`, little endian, in the fewest whole bytes. */
class OneSymbol {
  constructor(size) {
    this.size = size;
    this.nBytes = Math.max(1, Math.ceil(bitLength(size - 1) / 8));
  }

  encode(answer) {
    const payload = new Uint8Array(this.nBytes);
    for (let byte = 0, rest = answer; byte < this.nBytes; byte++, rest = Math.floor(rest / 256)) payload[byte] = rest % 256;
    return payload;
  }

  decode(payload) {
    checkLength(payload, this.nBytes);
    const number = payload.reduceRight((sum, byte) => 256 * sum + byte, 0);
    if (number >= this.size) refuse("not-canonical", `expected a symbol below ${this.size}`);
    return number;
  }
}

/** Symbols 0, 1, 2 at two bits each: a row whose fourth code is unused. */
const trits = (length) => new Row(length, 3, 2);

function bitLength(number) {
  return number < 1 ? 0 : number.toString(2).length;
}

// --- reports and batches ---

const VERSION = 1;
const HEADER_BYTES = 35;
const PUBLIC_WORD = new TextEncoder().encode("keyveil public word 1");

function header(tag, round, reportId) {
  const bytes = new Uint8Array(HEADER_BYTES);
  bytes[0] = VERSION;
  bytes.set(tag, 1);
  new DataView(bytes.buffer).setUint16(17, round, true);
  bytes.set(reportId, 19);
  return bytes;
}

/** The word that a report's header gives: what must not be the device's choice follows from it. */
export async function publicWord(tag, round, reportId) {
  return new Words(await sha256(PUBLIC_WORD, header(tag, round, reportId))).at(0);
}

/** The parts of a report, or a refusal; the payload is not looked at. */
export function readReport(bytes) {
  if (bytes.length < HEADER_BYTES) refuse("wrong-length", `expected at least ${HEADER_BYTES} bytes, got ${bytes.length}`);
  if (bytes[0] !== VERSION) refuse("unknown-version", `this reads version ${VERSION}, got ${bytes[0]}`);
  return {
    campaign: bytes.slice(1, 17),
    round: bytes[17] + 256 * bytes[18],
    report_id: bytes.slice(19, 35),
    payload: bytes.slice(HEADER_BYTES),
  };
}

const FIELDS = { version: "number", campaign: "string", round: "number", report_id: "string", payload: "string" };

/** A report for people: ids in hexadecimal, the payload in base64. */
export function reportToJson(bytes) {
  const { campaign, round, report_id, payload } = readReport(bytes);
  return JSON.stringify({
    version: VERSION,
    campaign: toHex(campaign),
    round,
    report_id: toHex(report_id),
    payload: btoa(String.fromCharCode(...payload)),
  });
}

/** The report that `reportToJson` wrote, or a refusal. */
export function reportFromJson(text) {
  let said;
  try {
    said = JSON.parse(text);
  } catch {
    refuse("not-json", "the text is no JSON");
  }
  const names = Object.keys(FIELDS);
  const isObject = said !== null && typeof said === "object" && !Array.isArray(said);
  // JSON.parse keeps the last of two equal names; a name said twice shows in the text, where nothing is escaped.
  const isOnce = (name) => !text.includes("\\") && text.split(JSON.stringify(name)).length === 2;
  if (!isObject || Object.keys(said).sort().join() !== [...names].sort().join() || !names.every(isOnce)) {
    refuse("not-json", `expected an object with ${names.join(", ")}, each once`);
  }
  for (const name of names) {
    const isRight = FIELDS[name] === "number" ? Number.isInteger(said[name]) : typeof said[name] === "string";
    if (!isRight) refuse("not-json", `${name} must be a ${FIELDS[name]}`);
  }
  if (said.version !== VERSION) refuse("unknown-version", `this reads version ${VERSION}`);
  for (const name of ["campaign", "report_id"]) {
    if (!/^[0-9a-f]{32}$/.test(said[name])) refuse("not-canonical", `${name} must be 32 small hexadecimal digits`);
  }
  if (said.round < 0 || said.round > 65535) refuse("not-canonical", "a round is a number from 0 to 65535");
  let payload = "";
  try {
    payload = atob(said.payload);
  } catch {
    refuse("not-canonical", "payload must be base64");
  }
  if (btoa(payload) !== said.payload) refuse("not-canonical", "payload must be base64, padded, without spaces");
  const bytes = Uint8Array.from(payload, (letter) => letter.charCodeAt(0));
  return concat([header(fromHex(said.campaign), said.round, fromHex(said.report_id)), bytes]);
}

/** Reports in one piece: a length (4 bytes, little endian) before each. */
export function toFrames(reports) {
  const parts = reports.flatMap((report) => {
    const length = new Uint8Array(4);
    new DataView(length.buffer).setUint32(0, report.length, true);
    return [length, report];
  });
  return concat(parts);
}

/** The reports of a batch, or a refusal. */
export function readFrames(bytes, { largest = 1 << 20, most = 1 << 16 } = {}) {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const reports = [];
  for (let at = 0; at < bytes.length; ) {
    if (bytes.length - at < 4) refuse("truncated-frame", `the stream ends in the length of frame ${reports.length}`);
    if (reports.length === most) refuse("too-many-reports", `expected at most ${most} reports; send fewer`);
    const length = view.getUint32(at, true);
    if (length > largest) refuse("frame-too-large", `expected at most ${largest} bytes, got ${length}`);
    if (bytes.length - at - 4 < length) refuse("truncated-frame", `frame ${reports.length} is cut short`);
    reports.push(bytes.slice(at + 4, at + 4 + length));
    at += 4 + length;
  }
  return reports;
}

// --- mechanisms: a description from the campaign's config becomes something to draw from ---

/** An exact ratio, as [numerator, denominator]. */
const largest = (ratios) => ratios.reduce((best, one) => (one[0] * best[1] > best[0] * one[1] ? one : best));
const smallest = (ratios) => ratios.reduce((best, one) => (one[0] * best[1] < best[0] * one[1] ? one : best));
const quotient = ([a, b], [c, d]) => [a * d, b * c];
const product = ([a, b], [c, d]) => [a * c, b * d];
const spread = (ratios) => quotient(largest(ratios), smallest(ratios));
/** The largest ratio between two chances of one symbol, over the columns of a table of rows. */
const spreadOfRows = (rows) =>
  largest(rows[0].map((_, column) => spread(rows.map((row) => [row[column], 1n]))));

function needPositive(...counts) {
  if (counts.some((count) => count <= 0n)) refuse("bad-config", "an outcome of the mechanism has no word");
}

/** A size in a description: a whole number that this device can work with. */
function sizeOf(value, least = 1, most = 2 ** 21) {
  const fits = Number.isInteger(value) && least <= value && value <= most;
  return fits ? value : refuse("bad-config", `expected a size from ${least} to ${most}`);
}

function signChannel({ keep, flip, fake }) {
  const channel = { keep: BigInt(keep), flip: BigInt(flip), fake: BigInt(fake) };
  channel.ownAbsent = WORDS - channel.keep - channel.flip;
  channel.otherAbsent = WORDS - 2n * channel.fake;
  needPositive(channel.keep, channel.flip, channel.fake);
  return channel;
}

const hearOwn = (c, sign, word) =>
  word < c.keep ? (sign > 0 ? PLUS : MINUS) : word < c.keep + c.flip ? (sign > 0 ? MINUS : PLUS) : ABSENT;
const hearOther = (c, word) => (word < c.fake ? PLUS : word < 2n * c.fake ? MINUS : ABSENT);

function windowOf({ n_in, width, step }) {
  const nOut = sizeOf(width) + sizeOf(step) * (sizeOf(n_in, 2) - 1);
  return { nIn: n_in, width, step, nOut: sizeOf(nOut, 2) };
}

const pickNear = (window, bin, place) => window.step * bin + place;
const pickFar = (window, bin, place) => (place < window.step * bin ? place : place + window.width);

function valueChannel({ window, near, far, fake }) {
  const w = windowOf(window);
  const channel = { window: w, near: BigInt(near), far: BigInt(far), fake: BigInt(fake) };
  channel.nearWords = channel.near * BigInt(w.width);
  channel.ownAbsent = WORDS - channel.nearWords - channel.far * BigInt(w.nOut - w.width);
  channel.otherAbsent = WORDS - channel.fake * BigInt(w.nOut);
  needPositive(channel.near, channel.far, channel.fake, channel.ownAbsent, channel.otherAbsent);
  return channel;
}

function hearOwnValue(c, bin, word) {
  if (word < c.nearWords) return 1 + pickNear(c.window, bin, Number(word / c.near));
  const place = Number((word - c.nearWords) / c.far);
  return place < c.window.nOut - c.window.width ? 1 + pickFar(c.window, bin, place) : ABSENT;
}

function hearOtherValue(c, word) {
  const place = Number(word / c.fake);
  return place < c.window.nOut ? 1 + place : ABSENT;
}

const binOf = (level, bins) => Math.min(bins - 1, Number((level * BigInt(bins)) >> 64n));

const MASK = WORDS - 1n;

/** Steele, Lea and Flood's splitmix64 finaliser. */
function mix(x) {
  x = (x + 0x9e3779b97f4a7c15n) & MASK;
  x = ((x ^ (x >> 30n)) * 0xbf58476d1ce4e5b9n) & MASK;
  x = ((x ^ (x >> 27n)) * 0x94d049bb133111ebn) & MASK;
  return x ^ (x >> 31n);
}

/** The public hash of a symbol. */
export function bucketOf(cohort, symbol, buckets) {
  const mixed = mix(mix(BigInt(cohort) + 1n) ^ BigInt.asUintN(64, BigInt(symbol) + 1n));
  return Number(((mixed >> 32n) * BigInt(buckets)) >> 32n);
}

function bisectRight(starts, value) {
  let place = 0;
  while (place < starts.length && starts[place] <= value) place++;
  return place;
}

const ENCODERS = {
  "own-key": ({ n_keys }) => ({
    nSymbols: n_keys + 1,
    draw(record, word) {
      const { code } = samplePair(record, 1, word);
      return code >= 0 ? code : n_keys;
    },
  }),
  "record-size": ({ largest: most }) => ({
    nSymbols: sizeOf(most) + 1,
    draw: (record) => Math.min(record.length, most),
  }),
  "size-class": ({ starts }) => ({
    nSymbols: starts.length,
    draw: (record) => bisectRight(starts, record.length) - 1,
  }),
  "own-sign": () => ({
    nSymbols: 3,
    draw(record, word) {
      if (!record.length) return 0;
      const slot = pick(word, record.length);
      const inside = word - wordsBefore(slot, record.length);
      return inside * FULL_LEVEL < record[slot].level * wordsFor(slot, record.length) ? 1 : 2;
    },
  }),
  "popular-size": ({ popular, most, starts }) => ({
    nSymbols: starts.length + (sizeOf(most) && 1),
    draw(record, word) {
      const held = Math.min(most, record.filter((pair) => popular.includes(pair.code)).length);
      return word * BigInt(most) < BigInt(held) << 64n ? bisectRight(starts, record.length) : 0;
    },
  }),
};

const ORACLES = {
  response({ n_symbols, lie }) {
    const lies = BigInt(lie);
    const keep = WORDS - BigInt(sizeOf(n_symbols, 2) - 1) * lies;
    needPositive(lies, keep - lies);
    return {
      nSymbols: n_symbols,
      nWords: 1,
      layout: new OneSymbol(n_symbols),
      loss: [keep, lies],
      perturb(symbol, words) {
        const word = words.at(0);
        if (word < keep) return symbol;
        const told = Number((word - keep) / lies);
        return told + (told >= symbol);
      },
    };
  },
  bits({ n_symbols, own, other }) {
    const [shown, noise] = [BigInt(own), BigInt(other)];
    needPositive(noise, shown - noise, WORDS - shown);
    return {
      nSymbols: sizeOf(n_symbols),
      nWords: n_symbols,
      layout: new Row(n_symbols, 2),
      loss: [shown * (WORDS - noise), noise * (WORDS - shown)],
      perturb(symbol, words) {
        const [silent, ownSilent] = atLeast(words, n_symbols, [noise, shown]);
        const answer = new Array(n_symbols);
        for (let place = 0; place < n_symbols; place++) answer[place] = 1 - bitOf(silent, place);
        answer[symbol] = 1 - bitOf(ownSilent, symbol);
        return answer;
      },
    };
  },
  hashed({ n_symbols, cohorts, response }) {
    const inner = ORACLES.response(response);
    const buckets = inner.nSymbols;
    sizeOf(cohorts);
    return {
      nSymbols: sizeOf(n_symbols),
      nWords: 2,
      layout: new OneSymbol(cohorts * buckets),
      loss: inner.loss,
      publicWord: 0,
      follows: (answer, word) => Math.floor(answer / buckets) === pick(word, cohorts),
      perturb(symbol, words) {
        const cohort = pick(words.at(0), cohorts);
        return cohort * buckets + inner.perturb(bucketOf(cohort, symbol, buckets), words.from(1));
      },
    };
  },
  wave({ window, near, far }) {
    const w = windowOf(window);
    const [close, away] = [BigInt(near), BigInt(far)];
    const nearWords = close * BigInt(w.width);
    // Words that nothing divides add to the last far output, which must not become likelier than a near one.
    const spare = WORDS - nearWords - away * BigInt(w.nOut - w.width);
    needPositive(away, spare + 1n, close - away - spare + 1n);
    return {
      nSymbols: w.nIn,
      nWords: 1,
      layout: new OneSymbol(w.nOut),
      loss: [close, away],
      perturb(symbol, words) {
        const word = words.at(0);
        if (word < nearWords) return pickNear(w, symbol, Number(word / close));
        const place = Number((word - nearWords) / away);
        return pickFar(w, symbol, Math.min(place, w.nOut - w.width - 1));
      },
    };
  },
};

function build(table, description) {
  const make = Object.hasOwn(table, description?.shape) ? table[description.shape] : undefined;
  return make ? make(description) : refuse("unknown-mechanism", "this device does not know the mechanism; update it");
}

const TIE_WORDS = 2 ** 32;

const SHAPES = {
  "signed-unary"({ n_keys, pairs_per_user, channel }) {
    const c = signChannel(channel);
    needPositive(c.ownAbsent, c.otherAbsent);
    return {
      nWords: 2 + n_keys,
      layout: trits(n_keys),
      loss: spread([[c.keep, c.fake], [c.flip, c.fake], [c.ownAbsent, c.otherAbsent]]),
      perturb(record, words) {
        const sampled = samplePair(record, pairs_per_user, words.at(0));
        const sign = roundToSign(sampled.level, words.at(1));
        const thresholds = [c.fake, 2n * c.fake, c.keep, c.keep + c.flip];
        const [notPlus, silent, notRight, ownSilent] = atLeast(words.from(2), n_keys, thresholds);
        const answer = new Uint8Array(n_keys + 1);
        // Silence lies above minus, minus above plus: 1, 1 + 1, 1 + 1 - 2.
        for (let place = 0; place < n_keys; place++) {
          answer[place] = 1 + bitOf(notPlus, place) - 2 * bitOf(silent, place);
        }
        const place = Math.max(sampled.code, 0);
        const right = 1 - bitOf(notRight, place);
        const wrong = bitOf(notRight, place) - bitOf(ownSilent, place);
        // A dummy's symbol goes behind the last key, where nobody reads it.
        answer[sampled.code < 0 ? n_keys : place] = sign > 0 ? right + 2 * wrong : 2 * right + wrong;
        return answer.subarray(0, n_keys);
      },
    };
  },

  "signed-response"({ n_keys, pairs_per_user, channel }) {
    const c = signChannel(channel);
    const padded = n_keys + pairs_per_user;
    const w = wordsFor(0, pairs_per_user);
    if (c.keep + c.flip + BigInt(2 * (padded - 1)) * c.fake !== WORDS || c.flip < c.fake) {
      refuse("bad-config", "the words of the mechanism do not add up");
    }
    return {
      nWords: 4,
      layout: new OneSymbol(2 * padded),
      loss: [w * c.keep + (WORDS - w) * c.fake, WORDS * c.fake],
      perturb(record, words) {
        const sampled = samplePair(record, pairs_per_user, words.at(0));
        const padding = n_keys + pick(words.at(1), pairs_per_user);
        const key = sampled.code >= 0 ? sampled.code : padding;
        const word = words.at(3);
        const heard = hearOwn(c, roundToSign(sampled.level, words.at(2)), word);
        if (heard !== ABSENT) return 2 * key + (heard === MINUS);
        const lie = Number((word - c.keep - c.flip) / c.fake);
        return lie + 2 * (lie >= 2 * key);
      },
    };
  },

  "sampled-index"({ n_keys, channel }) {
    const c = signChannel(channel);
    needPositive(c.ownAbsent, c.otherAbsent);
    return {
      nWords: 3,
      layout: new OneSymbol(3 * n_keys),
      loss: spreadOfRows([
        [c.ownAbsent, c.keep, c.flip],
        [c.ownAbsent, c.flip, c.keep],
        [c.otherAbsent, c.fake, c.fake],
      ]),
      perturb(record, words) {
        const index = pick(words.at(0), n_keys);
        const level = levelIn(record, index);
        const own = hearOwn(c, roundToSign(level ?? HALF_LEVEL, words.at(1)), words.at(2));
        const other = hearOther(c, words.at(2));
        return 3 * index + (level === undefined ? other : own);
      },
    };
  },

  "unary-values"({ n_keys, pairs_per_user, channel }) {
    const c = valueChannel(channel);
    const padded = n_keys + pairs_per_user;
    return {
      nWords: 2 + padded,
      layout: new Row(padded, c.window.nOut + 1),
      loss: spread([[c.near, c.fake], [c.far, c.fake], [c.ownAbsent, c.otherAbsent]]),
      perturb(record, words) {
        const positions = words.from(2);
        const answer = Array.from({ length: padded }, (_, place) => hearOtherValue(c, positions.at(place)));
        const sampled = samplePair(record, pairs_per_user, words.at(0));
        const padding = n_keys + pick(words.at(1), pairs_per_user);
        const [code, level] = sampled.code >= 0 ? [sampled.code, sampled.level] : [padding, 0n];
        answer[code] = hearOwnValue(c, binOf(level, c.window.nIn), positions.at(code));
        return answer;
      },
    };
  },

  "indexed-boundary"({ n_keys, channel }) {
    const c = valueChannel(channel);
    const bins = c.window.nIn;
    if (c.window.nOut !== bins) refuse("bad-config", "a boundary is told as one of the boundaries");
    return {
      nWords: 3,
      layout: new OneSymbol(n_keys * (bins + 1)),
      loss: largest([
        spread([[c.near, 1n], [c.far, 1n], [c.fake, 1n]]),
        spread([[c.ownAbsent, 1n], [c.otherAbsent, 1n]]),
      ]),
      perturb(record, words) {
        const index = pick(words.at(0), n_keys);
        const level = levelIn(record, index);
        const own = hearOwnValue(c, roundToBoundary(level ?? HALF_LEVEL, bins, words.at(1)), words.at(2));
        const other = hearOtherValue(c, words.at(2));
        return (bins + 1) * index + (level === undefined ? other : own);
      },
    };
  },

  "indexed-boundary-bits"({ n_keys, held, bits }) {
    const oracle = ORACLES.bits(bits);
    const bins = oracle.nSymbols;
    const said = BigInt(held);
    const symbols = 2 ** bins + 1;
    needPositive(2n * said - WORDS, WORDS - said);
    return {
      nWords: 3 + bins,
      layout: new OneSymbol(n_keys * symbols),
      // Both budgets added up, as the paper does: never below the true loss.
      loss: product([said, WORDS - said], oracle.loss),
      perturb(record, words) {
        const index = pick(words.at(0), n_keys);
        const level = levelIn(record, index);
        const isHeld = level !== undefined;
        const place = isHeld ? roundToBoundary(level, bins, words.at(1)) : pick(words.at(1), bins);
        const shown = oracle.perturb(place, words.from(3)).reduceRight((sum, bit) => 2 * sum + bit, 0);
        return symbols * index + (words.at(2) < (isHeld ? said : WORDS - said) ? 1 + shown : 0);
      },
    };
  },

  "broadcast-index"({ n_keys, held, held_keep, fake, fake_keep, levels }) {
    const [said, kept, faked, fakedKept] = [held, held_keep, fake, fake_keep].map(BigInt);
    const means = levels.map(BigInt);
    if (means.length !== n_keys) refuse("bad-config", "every key has a mean");
    needPositive(said - kept, kept, faked - fakedKept, fakedKept, WORDS - said, WORDS - faked);
    return {
      nWords: 4,
      layout: new OneSymbol(6 * n_keys),
      loss: spreadOfRows([
        [WORDS - said, kept, said - kept],
        [WORDS - said, said - kept, kept],
        [WORDS - faked, fakedKept, faked - fakedKept],
      ]),
      perturb(record, words) {
        const index = pick(words.at(0), n_keys);
        const coin = roundToSign(means[index], words.at(1));
        const level = levelIn(record, index);
        const isHeld = level !== undefined;
        const sign = isHeld ? roundToSign(level, words.at(2)) : coin;
        const word = words.at(3);
        const isKept = word < (isHeld ? kept : fakedKept);
        const symbol = word >= (isHeld ? said : faked) ? ABSENT : isKept === sign > 0 ? PLUS : MINUS;
        return 6 * index + 3 * (coin < 0) + symbol;
      },
    };
  },

  bucket({ pairs_per_user, buckets, tie, cohorts, low, high }) {
    const [least, most, g] = [BigInt(low), BigInt(high), BigInt(sizeOf(buckets, 2))];
    sizeOf(cohorts);
    const ownWords = (owned) => {
      const evenly = (WORDS - (g - BigInt(owned)) * least) / BigInt(owned);
      return evenly < most ? evenly : most;
    };
    const rows = [];
    for (let owned = 1; owned <= Math.min(pairs_per_user, buckets); owned++) {
      const own = ownWords(owned);
      const [rest, others] = [WORDS - BigInt(owned) * own, g - BigInt(owned)];
      rows.push(own, others ? rest / others : WORDS / g, others ? ceilDiv(rest, others) : own);
    }
    needPositive(...rows);
    const symbolBucket = (cohort, code, sign) => {
      const free = bucketOf(cohort, 2 * code + (sign < 0), buckets);
      if (!tie) return free;
      const plus = bucketOf(cohort, 2 * code, buckets);
      const apart = (plus + 1 + bucketOf(cohort, 2 * code + 1, buckets - 1)) % buckets;
      const isTied = sign < 0 && bucketOf(cohort, -1 - code, TIE_WORDS) < Math.abs(tie);
      return isTied ? (tie > 0 ? plus : apart) : free;
    };
    const tell = (owned, word) => {
      const others = buckets - owned.length;
      if (!others) return pick(word, buckets);
      const own = ownWords(owned.length);
      const ownAll = own * BigInt(owned.length);
      if (word < ownAll) return owned[Number(word / own)];
      let bucket = Number(((word - ownAll) * BigInt(others)) / (WORDS - ownAll));
      for (const taken of owned) bucket += taken <= bucket;
      return bucket;
    };
    return {
      nWords: 2 + 2 * pairs_per_user,
      layout: new OneSymbol(cohorts * buckets),
      loss: spread(rows.map((row) => [row, 1n])),
      publicWord: 0,
      follows: (answer, word) => Math.floor(answer / buckets) === pick(word, cohorts),
      perturb(record, words) {
        const l = pairs_per_user;
        const cohort = pick(words.at(0), cohorts);
        const pairs = [...record];
        // Fisher and Yates: a record of more than l pairs keeps l of them.
        for (let i = 0; record.length > l && i < l; i++) {
          const other = i + pick(words.at(1 + i), record.length - i);
          [pairs[i], pairs[other]] = [pairs[other], pairs[i]];
        }
        const owned = new Set();
        for (let place = 0; place < l; place++) {
          const word = words.at(1 + l + place);
          const { code, level } = pairs[place] ?? DUMMY;
          const own = symbolBucket(cohort, Math.max(code, 0), roundToSign(level, word));
          const dummy = pick(word, buckets);
          owned.add(code >= 0 ? own : dummy);
        }
        const told = tell([...owned].sort((a, b) => a - b), words.at(1 + 2 * l));
        return cohort * buckets + told;
      },
    };
  },

  apart({ n_keys, pairs_per_user, oracle: told, sign: { keep } }) {
    const oracle = build(ORACLES, told);
    const kept = BigInt(keep);
    const isOne = told.shape === "response";
    if (oracle.nSymbols !== n_keys + 1) refuse("bad-config", "keys and a dummy need as many symbols");
    needPositive(2n * kept - WORDS, WORDS - kept);
    return {
      nWords: 3 + oracle.nWords,
      layout: isOne ? new OneSymbol(2 * oracle.nSymbols) : new Row(oracle.nSymbols + 1, 2),
      loss: product(oracle.loss, [kept, WORDS - kept]),
      perturb(record, words) {
        const sampled = samplePair(record, pairs_per_user, words.at(0));
        const answer = oracle.perturb(sampled.code >= 0 ? sampled.code : n_keys, words.from(3));
        const sign = roundToSign(sampled.level, words.at(1)) * (words.at(2) < kept ? 1 : -1);
        const up = Number(sign > 0);
        return isOne ? 2 * answer + up : [...answer, up];
      },
    };
  },

  "encoded-oracle"({ encoder: read, oracle: told }) {
    const encoder = build(ENCODERS, read);
    const oracle = build(ORACLES, told);
    if (encoder.nSymbols !== oracle.nSymbols) refuse("bad-config", "encoder and oracle do not fit");
    return {
      ...oracle,
      nWords: 1 + oracle.nWords,
      publicWord: oracle.publicWord === undefined ? undefined : 1,
      perturb: (record, words) => oracle.perturb(encoder.draw(record, words.at(0)), words.from(1)),
    };
  },
};

/** One of the two boundaries around a value, so that the mean is kept. */
function roundToBoundary(level, bins, word) {
  const scaled = level * BigInt(bins - 1);
  const below = scaled / FULL_LEVEL;
  return Number(below) + (word < scaled - below * FULL_LEVEL);
}

/** The mechanism of a description (Python's `mechanisms.describe`). */
export function buildMechanism(description) {
  try {
    const { n_keys = 1, pairs_per_user = 1 } = description ?? {};
    sizeOf(n_keys);
    sizeOf(pairs_per_user);
    return build(SHAPES, description);
  } catch (error) {
    if (error instanceof Refused) throw error;
    return refuse("bad-config", "the mechanism's parameters are not those of its shape");
  }
}

/** ln(numerator / denominator), to the precision of a float. */
export function epsilonOf([numerator, denominator]) {
  const log = (number) => {
    const shift = Math.max(0, number.toString(16).length * 4 - 512);
    return Math.log(Number(number >> BigInt(shift))) + shift * Math.LN2;
  };
  return log(numerator) - log(denominator);
}

// --- configs ---

const FORMAT = "keyveil-device/1";
// The loss is an exact ratio; its logarithm is not.
const LOG_SLACK = 1e-12;

/**
 * A campaign's config (Python's `Campaign.device_config`), checked.
 *
 * The id is the hash of the campaign's text. The loss is that of the integers, whatever the text claims.
 */
export async function readConfig(config) {
  try {
    return await checkedConfig(config);
  } catch (error) {
    if (error instanceof Refused) throw error;
    return refuse("bad-config", "the config lacks a field, or one has the wrong type");
  }
}

async function checkedConfig(config) {
  if (config?.format !== FORMAT) refuse("unknown-version", `this device reads ${FORMAT}`);
  const said = JSON.parse(config.campaign);
  const names = said.other ? [...said.keys, "other"] : said.keys;
  const digest = await sha256(new TextEncoder().encode(config.campaign));
  const asked = config.keys ?? null;
  if (asked && (new Set(asked).size !== asked.length || !asked.every((code) => code in names))) {
    refuse("bad-config", "the round asks about keys that the campaign does not name");
  }
  const mechanism = buildMechanism(config.mechanism);
  const epsilon = epsilonOf(mechanism.loss);
  if (!(epsilon <= said.epsilon * (1 + LOG_SLACK) + LOG_SLACK)) {
    refuse("loss-exceeds-epsilon", `the mechanism loses ${epsilon}, the campaign says ${said.epsilon}`);
  }
  const n_asked = config.mechanism.n_keys ?? config.mechanism.encoder?.n_keys;
  if (new Set(names).size !== names.length || n_asked !== (asked ?? names).length) {
    refuse("bad-config", "the mechanism's keys are not the campaign's");
  }
  const [low, high] = said.value_range;
  if (!(low < high && Number.isFinite(high - low))) refuse("bad-config", "the value range is none");
  if (!Number.isInteger(config.round) || config.round < 0 || config.round > 65535) refuse("bad-config", "no round");
  return {
    id: toHex(digest),
    tag: digest.slice(0, 16),
    round: config.round,
    said,
    epsilon,
    mechanism,
    description: config.mechanism,
    asked: asked && new Map(asked.map((code, place) => [code, place])),
    value_range: said.value_range,
    other: said.other,
    n_keys: names.length,
    codes: new Map(names.map((name, code) => [name, code])),
    names,
  };
}

/** The record that a round asks about. */
export function readRecord(campaign, held) {
  const record = encodeRecord(campaign, held);
  if (!campaign.asked) return record;
  return record
    .filter((pair) => campaign.asked.has(pair.code))
    .map(({ code, level }) => ({ code: campaign.asked.get(code), level }))
    .sort((a, b) => a.code - b.code);
}

/** One report; `bytes` are the random words, `reportId` is random too. A public word follows from the id. */
export async function makeReport(campaign, record, bytes, reportId) {
  const { mechanism, tag, round } = campaign;
  if (bytes.length !== 8 * mechanism.nWords) refuse("bad-words", `expected ${mechanism.nWords} words`);
  const words = new Words(bytes);
  if (mechanism.publicWord !== undefined) {
    words.view.setBigUint64(8 * mechanism.publicWord, await publicWord(tag, round, reportId), true);
  }
  const payload = mechanism.layout.encode(mechanism.perturb(record, words));
  return concat([header(tag, round, reportId), payload]);
}

/** The answer in a report to this campaign's open round, or a refusal: what a collector would say. */
export async function checkReport(campaign, bytes) {
  const { campaign: tag, round, report_id, payload } = readReport(bytes);
  if (toHex(tag) !== toHex(campaign.tag)) refuse("wrong-campaign", "the report answers another campaign");
  if (round !== campaign.round) refuse("wrong-round", `the report answers round ${round}`);
  const { mechanism } = campaign;
  const answer = mechanism.layout.decode(payload);
  if (mechanism.publicWord !== undefined && !mechanism.follows(answer, await publicWord(tag, round, report_id))) {
    refuse("wrong-cohort", "the report tells a hash that its id does not give");
  }
  return answer;
}

// --- ledgers: one document, changed in one transaction ---

const EMPTY = { version: 1, enabled: false, secret: null, spent: {}, memo: {}, queue: [], dropped: 0, refused: 0, tries: 0, notBefore: 0 };

function checkedState(state) {
  const isSpent = (spent) => Object.values(spent).every((epsilon) => Number.isFinite(epsilon) && epsilon >= 0);
  const isRight =
    state?.version === 1 && Array.isArray(state.queue) && typeof state.spent === "object" && isSpent(state.spent);
  return isRight ? state : refuse("ledger-corrupt", "the ledger cannot be read; what was spent is unknown, so nothing is sent");
}

const fresh = () => ({ ...structuredClone(EMPTY), secret: toHex(randomBytes(32)) });

/** A ledger that is forgotten with its page or process: for tests. */
export class MemoryLedger {
  #text = null;

  async update(change) {
    const state = this.#text === null ? fresh() : checkedState(JSON.parse(this.#text));
    const result = change(state);
    this.#text = JSON.stringify(state);
    return result;
  }
}

/** Take a lock, a file with this process's number; false where another process holds it. */
async function isTaken(fs, lock) {
  const mine = `${lock}.${toHex(randomBytes(8))}`;
  try {
    // A link appears with its content: no moment at which the lock is there and its owner is not.
    await fs.writeFile(mine, String(process.pid));
    await fs.link(mine, lock);
    return true;
  } catch (error) {
    return error.code === "EEXIST" ? false : refuse("ledger-unwritable", "the ledger's folder cannot be written");
  } finally {
    await fs.rm(mine, { force: true });
  }
}

/** Whether the process that made a lock died with it: gone by its number, or silent for ten seconds. */
async function isLeftBehind(fs, lock) {
  const [text, stat] = await Promise.all([fs.readFile(lock, "utf8"), fs.stat(lock)]).catch(() => ["", null]);
  if (stat === null) return false;
  if (Date.now() - stat.mtimeMs > 10_000) return true;
  if (!/^[0-9]+$/.test(text)) return false;
  try {
    process.kill(Number(text), 0);
    return false;
  } catch (error) {
    return error.code === "ESRCH";
  }
}

/** Take a dead process's lock away; a live one that was caught by mistake is put back. */
async function takeAway(fs, lock) {
  const aside = `${lock}.${toHex(randomBytes(8))}`;
  try {
    await fs.rename(lock, aside);
  } catch {
    return;
  }
  if (!(await isLeftBehind(fs, aside))) await fs.link(aside, lock).catch(() => undefined);
  await fs.rm(aside, { force: true });
}

/** A ledger in a file (Node): written beside, flushed, then renamed; a lock keeps other processes out. */
export class FileLedger {
  #path;
  #turn = Promise.resolve();

  constructor(path) {
    this.#path = path;
  }

  update(change) {
    const turn = this.#turn.then(() => this.#locked(change));
    this.#turn = turn.catch(() => undefined);
    return turn;
  }

  async #locked(change) {
    const fs = await import("node:fs/promises");
    const lock = `${this.#path}.lock`;
    for (let tries = 0; !(await isTaken(fs, lock)); tries++) {
      if (await isLeftBehind(fs, lock)) await takeAway(fs, lock);
      else if (tries > 1_000) refuse("ledger-busy", "another process holds the ledger");
      else await new Promise((wake) => setTimeout(wake, 5));
    }
    try {
      return await this.#change(fs, change);
    } finally {
      await fs.rm(lock, { force: true });
    }
  }

  async #change(fs, change) {
    const text = await fs.readFile(this.#path, "utf8").catch((error) => {
      if (error.code === "ENOENT") return null;
      return refuse("ledger-corrupt", "the ledger cannot be read");
    });
    const state = text === null ? fresh() : checkedState(parsed(text));
    const result = change(state);
    const beside = `${this.#path}.new`;
    try {
      const file = await fs.open(beside, "w", 0o600);
      try {
        await file.writeFile(JSON.stringify(state));
        await file.sync();
      } finally {
        await file.close();
      }
      await fs.rename(beside, this.#path);
    } catch {
      refuse("ledger-unwritable", "the ledger cannot be written");
    }
    return result;
  }
}

function parsed(text) {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}

/** A ledger in the browser's IndexedDB: one read-and-write transaction a change, shared by all tabs. */
export class BrowserLedger {
  #name;

  constructor(name = "keyveil") {
    this.#name = name;
  }

  async update(change) {
    const database = await this.#open();
    try {
      return await new Promise((resolve, reject) => {
        const transaction = database.transaction("ledger", "readwrite", { durability: "strict" });
        const store = transaction.objectStore("ledger");
        let result;
        let failure;
        const reading = store.get("state");
        reading.onsuccess = () => {
          try {
            const state = reading.result === undefined ? fresh() : checkedState(reading.result);
            result = change(state);
            store.put(state, "state");
          } catch (error) {
            failure = error;
            transaction.abort();
          }
        };
        transaction.oncomplete = () => resolve(result);
        transaction.onabort = () => reject(failure ?? new Refused("ledger-unwritable", "the ledger cannot be written"));
      });
    } finally {
      database.close();
    }
  }

  #open() {
    return new Promise((resolve, reject) => {
      const opening = globalThis.indexedDB.open(this.#name, 1);
      opening.onupgradeneeded = () => opening.result.createObjectStore("ledger");
      opening.onsuccess = () => resolve(opening.result);
      opening.onerror = () => reject(new Refused("ledger-corrupt", "the ledger cannot be opened"));
    });
  }
}

// --- the device ---

/** Whether the person asked, by a setting of the browser or the machine, not to be asked. */
export function asksNotToTrack(environment = globalThis) {
  const navigator = environment.navigator ?? {};
  const variable = environment.process?.env?.DO_NOT_TRACK;
  return (
    navigator.globalPrivacyControl === true ||
    [navigator.doNotTrack, environment.doNotTrack].some((said) => said === "1" || said === "yes") ||
    (variable !== undefined && !["", "0", "false"].includes(variable))
  );
}

const DEFAULTS = {
  campaignCap: 4,
  lifetimeCap: 16,
  mostQueued: 100,
  mostQueuedBytes: 1 << 20,
  batch: 50,
  firstWait: 1_000,
  longestWait: 3_600_000,
  timeout: 10_000,
  ids: () => randomBytes(16),
};

// A batch with one of these answers will never be taken; any other answer may be a matter of time.
const TOO_LARGE = 413;
const FINAL = [400, 410, TOO_LARGE, 415, 422];
const COUNTED = ["accepted", "duplicate"];
const REFUSALS = {
  round_closed: "the round it answers is over",
  "wrong-round": "it answers a round that has not been opened",
  "wrong-campaign": "it answers another campaign",
  "wrong-length": "it is not as long as the round's reports are",
  "unknown-version": "the collector does not read its version",
  "not-canonical": "the collector cannot read its bytes",
  "wrong-cohort": "its hash is not the one that its id gives",
  "not-issued": "its id is not one that the collector handed out; open the device with issuedIds",
  "batch-refused": "the collector takes no batch like the one that it was in",
};

/**
 * Where a device gets the ids of its reports, if its campaign hands them out: `Device.open(config, {ids: issuedIds(...)})`.
 *
 * Asks for one whenever a report is made, whether or not the answer is a new one: asking tells nothing.
 */
export function issuedIds({ url, campaign, token, fetch = globalThis.fetch?.bind(globalThis), timeout = DEFAULTS.timeout }) {
  checkUrl(url);
  const address = `${url.replace(/\/+$/, "")}/v1/campaigns/${campaign}/ids?count=1`;
  const options = { method: "POST", headers: { authorization: `Bearer ${token}` }, credentials: "omit", redirect: "error" };
  return async () => {
    const said = await fetch(address, { ...options, signal: AbortSignal.timeout(timeout) })
      .then((response) => (response.ok ? response.json() : null))
      .catch(() => null);
    const [id] = said?.ids ?? [];
    if (!/^[0-9a-f]{32}$/.test(id ?? "")) refuse("no-id", "the collector handed out no id; try again later");
    return fromHex(id);
  };
}

/**
 * One campaign on one device.
 *
 * Nothing is read or sent before `enable()`. What a report costs is written down before it is queued, in the
 * same transaction. Methods do not throw for what may happen in the field: they return `{ok: false, code}`.
 */
export class Device {
  #campaign;
  #ledger;
  #options;

  constructor(campaign, options) {
    this.#campaign = campaign;
    this.#ledger = options.ledger;
    this.#options = options;
  }

  /** A device for a config; refuses one that spends more than its text, its expiry or the caps allow. */
  static async open(config, options = {}) {
    const { url, ledger = globalThis.indexedDB ? new BrowserLedger() : undefined } = options;
    if (!ledger) refuse("no-ledger", "pass a ledger, such as new FileLedger(path)");
    const chosen = { fetch: globalThis.fetch?.bind(globalThis), now: Date.now, environment: globalThis, ...DEFAULTS, ...options, ledger };
    if (url !== undefined) checkUrl(url);
    if (options.token !== undefined && !/^[\x21-\x7e]+$/.test(options.token)) refuse("bad-token", "a token is one word of plain letters");
    const campaign = await readConfig(config);
    if (campaign.epsilon > chosen.campaignCap) {
      refuse("over-campaign-cap", `one answer costs ${campaign.epsilon.toFixed(3)}, this device allows ${chosen.campaignCap}`);
    }
    return new Device(campaign, chosen);
  }

  /** The campaign's id. */
  get id() {
    return this.#campaign.id;
  }

  /** The person agrees. */
  enable() {
    return this.#safely(async () => {
      await this.#ledger.update((state) => void (state.enabled = true));
      return { ok: true };
    });
  }

  /** The person does not, or no longer: queue and remembered answers are wiped. What was spent stays spent. */
  disable() {
    return this.#safely(async () => {
      await this.#ledger.update((state) => void Object.assign(state, { enabled: false, queue: [], memo: {} }));
      return { ok: true };
    });
  }

  /**
   * Answers the open round once, whatever is held, and queues the report.
   *
   * Unchanged data get the answer they got, at no cost; changed data a new one, at full cost.
   */
  report(held) {
    return this.#safely(async () => {
      await this.#checkAllowed();
      const campaign = this.#campaign;
      const record = readRecord(campaign, held);
      const { mechanism, tag, round } = campaign;
      const [fingerprint, question] = await Promise.all([this.#fingerprint(record), this.#question()]);
      const reportId = await this.#options.ids();
      const made = await makeReport(campaign, record, randomBytes(8 * mechanism.nWords), reportId);
      return this.#ledger.update((state) => {
        if (!state.enabled) refuse("not-enabled", "the person has not agreed");
        const known = state.memo[question];
        const isSame = known?.fingerprint === fingerprint;
        if (isSame && known.tag === toHex(tag) && known.round === round) {
          const again = fromHex(known.report);
          this.#enqueue(state, again);
          return { ok: true, report: again, spent: 0 };
        }
        // The same answer under a new header, so that it is counted in another campaign or round too.
        const report = isSame ? concat([header(tag, round, reportId), fromHex(known.payload)]) : made;
        const spent = isSame ? 0 : campaign.epsilon;
        this.#debit(state, spent);
        const payload = toHex(report.subarray(HEADER_BYTES));
        state.memo[question] = { fingerprint, payload, report: toHex(report), tag: toHex(tag), round };
        this.#enqueue(state, report);
        return { ok: true, report, spent };
      });
    });
  }

  /**
   * Uploads what is queued, in batches; stops at the first failure and waits before the next try.
   *
   * The collector answers with a status for each report, and its word is final: what it counts and what it
   * refuses both leave the queue. `refused` says why, one entry a report.
   */
  send() {
    return this.#safely(async () => {
      await this.#checkAllowed();
      const { url, batch, now } = this.#options;
      if (url === undefined) refuse("no-url", "pass url to Device.open");
      let sent = 0;
      const refused = [];
      for (;;) {
        const part = await this.#ledger.update((state) => {
          if (!state.enabled) refuse("not-enabled", "the person has not agreed");
          if (now() < state.notBefore) refuse("waiting", "the collector asked for patience, or a try failed");
          const mine = state.queue.filter((item) => item.campaign === this.#campaign.id);
          return mine.slice(0, batch).map((item) => item.report);
        });
        if (!part.length) return { ok: true, sent, refused };
        const outcome = await this.#upload(part.map(fromHex));
        await this.#ledger.update((state) => this.#settle(state, part, outcome));
        if (!outcome.statuses) refuse(outcome.code, outcome.reason);
        const lost = outcome.statuses.filter((status) => !COUNTED.includes(status));
        sent += part.length - lost.length;
        refused.push(...lost.map((code) => ({ code, reason: REFUSALS[code] ?? "the collector refused it" })));
      }
    });
  }

  /** What the ledger says: spent here, spent in all, the most that may ever be spent, and the queue. */
  status() {
    return this.#safely(async () => {
      const { campaignCap, lifetimeCap, environment } = this.#options;
      return this.#ledger.update((state) => ({
        ok: true,
        enabled: state.enabled && !asksNotToTrack(environment),
        spent: state.spent[this.#campaign.id] ?? 0,
        spentInAll: total(state.spent),
        campaignCap,
        lifetimeCap,
        queued: state.queue.length,
        dropped: state.dropped,
        refused: state.refused,
      }));
    });
  }

  /** For the person: what is true, what was sent, and what an observer can now guess. */
  explain(held) {
    return this.#safely(async () => {
      const { names, said, epsilon, mechanism, asked } = this.#campaign;
      const record = readRecord(this.#campaign, held);
      const question = await this.#question();
      const [known, spent] = await this.#ledger.update((state) => [state.memo[question], state.spent[this.#campaign.id] ?? 0]);
      const nameOf = asked ? new Map([...asked].map(([code, place]) => [place, names[code]])) : names.entries();
      const byCode = new Map(nameOf);
      const truth = record.length ? `You hold ${record.map(({ code }) => byCode.get(code)).join(", ")}.` : "You hold none of what is asked about.";
      const bytes = known?.payload.length / 2;
      const sent = known
        ? `${bytes} bytes were sent, in the same length and number for everybody. They read ${JSON.stringify([mechanism.layout.decode(fromHex(known.payload))].flat())}.`
        : "Nothing was sent.";
      const odds = Math.exp(Math.max(spent, known ? epsilon : 0));
      const percent = ((100 * odds) / (1 + odds)).toFixed(1);
      const guess = known
        ? `Who thought it even whether you hold something is now at most ${percent} % sure, whatever else they know.`
        : "Nobody learned anything.";
      const purpose = said.purpose ? ` It is asked for this purpose: ${said.purpose}.` : "";
      return { ok: true, truth, sent, guess, text: `${truth} ${sent} ${guess}${purpose}` };
    });
  }

  async #checkAllowed() {
    const { environment, now } = this.#options;
    if (asksNotToTrack(environment)) refuse("do-not-track", "the person asked not to be tracked");
    const { expires } = this.#campaign.said;
    if (expires && !(now() < endOf(expires))) refuse("expired", "the campaign is over");
    const isEnabled = await this.#ledger.update((state) => state.enabled);
    if (!isEnabled) refuse("not-enabled", "the person has not agreed");
  }

  async #fingerprint(record) {
    const secret = await this.#ledger.update((state) => state.secret);
    const key = await webCrypto.subtle.importKey("raw", fromHex(secret), { name: "HMAC", hash: "SHA-256" }, false, ["sign"]);
    const text = record.map(({ code, level }) => `${code}:${level}`).join();
    return toHex(new Uint8Array(await webCrypto.subtle.sign("HMAC", key, new TextEncoder().encode(text))));
  }

  /** What is asked, apart from when: an answer may be repeated wherever this is the same. */
  async #question() {
    const { description, names, asked, value_range, mechanism, id, round } = this.#campaign;
    // A public word ties an answer to one report's id, so it cannot be repeated elsewhere.
    const only = mechanism.publicWord === undefined ? null : [id, round];
    const text = JSON.stringify([description, names, asked && [...asked], value_range, only]);
    return toHex(await sha256(new TextEncoder().encode(text)));
  }

  #debit(state, epsilon) {
    const { campaignCap, lifetimeCap } = this.#options;
    const here = (state.spent[this.#campaign.id] ?? 0) + epsilon;
    if (here > campaignCap) refuse("over-campaign-cap", "this device has spent what it allows for the campaign");
    if (total(state.spent) + epsilon > lifetimeCap) refuse("over-lifetime-cap", "this device has spent what it allows");
    state.spent[this.#campaign.id] = here;
  }

  #enqueue(state, report) {
    const { mostQueued, mostQueuedBytes } = this.#options;
    const item = { campaign: this.#campaign.id, report: toHex(report) };
    if (state.queue.some((queued) => queued.report === item.report)) return;
    state.queue.push(item);
    const bytes = () => state.queue.reduce((sum, queued) => sum + queued.report.length / 2, 0);
    while (state.queue.length > mostQueued || bytes() > mostQueuedBytes) {
      state.queue.shift();
      state.dropped++;
    }
  }

  /** A status for each report; or, where the collector must be asked again later, a code, a reason and a wait. */
  async #upload(reports) {
    const { url, fetch, timeout, token } = this.#options;
    const address = `${url.replace(/\/+$/, "")}/v1/campaigns/${this.#campaign.id}/reports`;
    const headers = { "content-type": "application/octet-stream", ...(token === undefined ? {} : { authorization: `Bearer ${token}` }) };
    const options = { method: "POST", body: toFrames(reports), headers, credentials: "omit", redirect: "error" };
    let response;
    try {
      response = await fetch(address, { ...options, signal: AbortSignal.timeout(timeout) });
      if (response.ok) {
        const { reports: statuses } = await response.json();
        if (Array.isArray(statuses) && statuses.length === reports.length) return { statuses };
        throw new Error("not one status a report");
      }
    } catch {
      return { code: "waiting", reason: "the upload failed; it is tried again later" };
    }
    if (response.status === TOO_LARGE && reports.length > 1) return this.#inHalves(reports);
    if (FINAL.includes(response.status)) return { statuses: reports.map(() => "batch-refused") };
    const isToken = response.status === 401 || response.status === 403;
    return {
      code: isToken ? "token-refused" : "waiting",
      reason: isToken ? "the collector wants another token than this device has; reports wait" : `the collector answered ${response.status}; it is tried again later`,
      after: response.headers.get("retry-after"),
    };
  }

  async #inHalves(reports) {
    const half = reports.length >> 1;
    const first = await this.#upload(reports.slice(0, half));
    if (!first.statuses) return first;
    const second = await this.#upload(reports.slice(half));
    // What was answered before a failure is asked again, and counts once: ids stay the same.
    return second.statuses ? { statuses: [...first.statuses, ...second.statuses] } : second;
  }

  #settle(state, part, { statuses, after }) {
    if (!statuses) {
      const { firstWait, longestWait, now } = this.#options;
      const wait = Math.min(longestWait, firstWait * 2 ** Math.min(state.tries, 30));
      const jitter = new DataView(randomBytes(4).buffer).getUint32(0) / 2 ** 32;
      state.tries++;
      state.notBefore = now() + Math.max(wait * (0.5 + jitter / 2), waitAsked(after, now(), longestWait));
      return;
    }
    const settled = new Set(part);
    state.queue = state.queue.filter((item) => !settled.has(item.report));
    state.tries = 0;
    state.notBefore = 0;
    state.refused += statuses.filter((status) => !COUNTED.includes(status)).length;
  }

  async #safely(work) {
    try {
      return await work();
    } catch (error) {
      return { ok: false, code: error instanceof Refused ? error.code : "unexpected", reason: error instanceof Refused ? error.message : "" };
    }
  }
}

/** The moment from which a campaign is over: a bare date includes its day, and a time without a zone is UTC. */
function endOf(expires) {
  if (!/[T ]/.test(expires)) return Date.parse(expires) + 86_400_000;
  const hasZone = /(Z|[+-]\d\d:?\d\d)$/i.test(expires);
  return Date.parse(`${expires.replace(" ", "T")}${hasZone ? "" : "Z"}`);
}

/** Milliseconds that a Retry-After asks for, in seconds or as a date, within a limit. */
function waitAsked(after, now, limit) {
  if (!after) return 0;
  const wait = /^\d+$/.test(after) ? 1000 * Number(after) : Date.parse(after) - now;
  return Math.min(limit, Math.max(0, wait || 0));
}

function checkUrl(url) {
  const { protocol, hostname } = new URL(url);
  const isLoopback = hostname === "localhost" || hostname === "[::1]" || /^127(\.\d+){3}$/.test(hostname);
  if (protocol !== "https:" && !(protocol === "http:" && isLoopback)) refuse("https-required", "reports travel by https only");
}

const total = (spent) => Object.values(spent).reduce((sum, epsilon) => sum + epsilon, 0);

function concat(parts) {
  const bytes = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
  let at = 0;
  for (const part of parts) {
    bytes.set(part, at);
    at += part.length;
  }
  return bytes;
}

/** Small hexadecimal digits. */
export function toHex(bytes) {
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** Bytes from hexadecimal digits. */
export function fromHex(text) {
  return Uint8Array.from({ length: text.length / 2 }, (_, place) => Number.parseInt(text.slice(2 * place, 2 * place + 2), 16));
}
