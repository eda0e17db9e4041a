/**
 * Exact numbers: fractions, an exponential that is never too large, a logarithm that is never too small.
 *
 * Python computes the same integers (tests/vectors/exact.json), so both languages calibrate the same noise and
 * debit the same price. No float takes part.
 */

const BITS = 256n;
const ONE = 1n << BITS;
/** What was spent is counted in units of 2^-192. */
export const UNIT_BITS = 192n;

/**
 * The quotient of two integers, rounded up.
 *
 * @param {bigint} numerator
 * @param {bigint} denominator
 */
export const ceilDiv = (numerator, denominator) => (numerator + denominator - 1n) / denominator;

/** @param {bigint | number} number */
export const bitLength = (number) => (number > 0 ? number.toString(2).length : 0);

/** A fraction that is not negative. Not reduced: only values are ever compared. */
export class Ratio {
  /**
   * @param {bigint} n
   * @param {bigint} [d]
   */
  constructor(n, d = 1n) {
    this.n = n;
    this.d = d;
  }

  /** @param {Ratio | bigint | number} value */
  static of(value) {
    return value instanceof Ratio ? value : new Ratio(BigInt(value));
  }

  /** @param {Ratio | bigint | number} other */
  plus(other) {
    const { n, d } = Ratio.of(other);
    return new Ratio(this.n * d + n * this.d, this.d * d);
  }

  /** @param {Ratio | bigint | number} other */
  minus(other) {
    const { n, d } = Ratio.of(other);
    return new Ratio(this.n * d - n * this.d, this.d * d);
  }

  /** @param {Ratio | bigint | number} other */
  times(other) {
    const { n, d } = Ratio.of(other);
    return new Ratio(this.n * n, this.d * d);
  }

  /** @param {Ratio | bigint | number} other */
  over(other) {
    const { n, d } = Ratio.of(other);
    return new Ratio(this.n * d, this.d * n);
  }

  /** @param {Ratio | bigint | number} other */
  isBelow(other) {
    const { n, d } = Ratio.of(other);
    return this.n * d < n * this.d;
  }

  floor() {
    return this.n / this.d;
  }

  ceil() {
    return ceilDiv(this.n, this.d);
  }
}

/** @type {(ratios: Ratio[]) => Ratio} */
export const largest = (ratios) => ratios.reduce((best, one) => (best.isBelow(one) ? one : best));
/** @type {(ratios: Ratio[]) => Ratio} */
export const smallest = (ratios) => ratios.reduce((best, one) => (one.isBelow(best) ? one : best));
/**
 * The largest over the smallest of some chances of the same answer.
 *
 * @param {Ratio[]} chances
 */
export const spread = (chances) => largest(chances).over(smallest(chances));

const FRACTION = /^(0|[1-9][0-9]{0,39})(?:\/([1-9][0-9]{0,39}))?$/;

/**
 * The fraction that a text says in lowest terms, a whole number without "/1"; null for any other text.
 *
 * @param {unknown} text
 */
export function parseFraction(text) {
  const [, n, d] = (typeof text === "string" && text.length <= 81 && FRACTION.exec(text)) || [];
  if (n === undefined) return null;
  const ratio = new Ratio(BigInt(n), BigInt(d ?? 1));
  return d === undefined || (ratio.d > 1n && gcd(ratio.n, ratio.d) === 1n) ? ratio : null;
}

/**
 * @param {bigint} a
 * @param {bigint} b
 */
function gcd(a, b) {
  while (b) [a, b] = [b, a % b];
  return a;
}

/**
 * A fraction just below exp(x) for 0 <= x <= 32, by less than one part in 2^158; exactly 1 for 0.
 *
 * @param {Ratio | bigint} x
 */
export function expBelow(x) {
  const { n, d } = Ratio.of(x);
  if (n === 0n) return new Ratio(1n);
  // exp(x) = exp(x / 2^16)^(2^16): a short series, squared sixteen times.
  const reduced = ((n << BITS) / d) >> 16n;
  let term = ONE;
  let total = ONE;
  for (let j = 1n; term; j++) {
    term = ((term * reduced) >> BITS) / j;
    total += term;
  }
  for (let squarings = 0; squarings < 16; squarings++) total = (total * total) >> BITS;
  return new Ratio(total - (total >> 160n), ONE);
}

/** @param {bigint} number */
const up = (number) => ceilDiv(number, ONE);

/**
 * 2 atanh(z), rounded up; numbers are out of 2^256, z at most 1/3.
 *
 * @param {bigint} z
 */
function twiceAtanh(z) {
  const square = up(z * z);
  let power = z;
  let total = 0n;
  for (let j = 1n; j <= 167n; j += 2n) {
    total += ceilDiv(power, j);
    power = up(power * square);
  }
  return 2n * (total + 1n);
}

/**
 * ln(x) in units of 2^-192, rounded up, for x of at least 1; exactly 0 for 1.
 *
 * @param {Ratio | bigint} x
 */
export function logAbove(x) {
  const { n, d } = Ratio.of(x);
  if (n === d) return 0n;
  const k = BigInt(bitLength(n / d) - 1);
  const m = ceilDiv(n << BITS, d << k);
  const z = ceilDiv((m - ONE) << BITS, m + ONE);
  return ceilDiv(twiceAtanh(z) + k * twiceAtanh(ceilDiv(ONE, 3n)), 1n << (BITS - UNIT_BITS));
}

/**
 * A float's exact value, for one that is finite and not negative.
 *
 * @param {number} number
 */
export function exactly(number) {
  const view = new DataView(new ArrayBuffer(8));
  view.setFloat64(0, number);
  const bits = view.getBigUint64(0);
  const exponent = bits >> 52n;
  const fraction = bits & ((1n << 52n) - 1n);
  // 2^-1074 is the smallest float.
  const mantissa = exponent ? fraction | (1n << 52n) : fraction;
  return new Ratio(mantissa << (exponent ? exponent - 1n : 0n), 1n << 1074n);
}

/**
 * Whether so many units are at most a float, both exactly.
 *
 * @param {bigint} units
 * @param {number} number
 */
export function isWithin(units, number) {
  const { n, d } = exactly(number);
  return units * d <= n << UNIT_BITS;
}

/**
 * A float's value in units, rounded up.
 *
 * @param {number} number
 */
export function unitsOf(number) {
  const { n, d } = exactly(number);
  return ceilDiv(n << UNIT_BITS, d);
}

/**
 * Units as a float for people, rounded up.
 *
 * @param {bigint} units
 */
export function toFloat(units) {
  const shift = BigInt(Math.max(0, bitLength(units) - 53));
  return Number(ceilDiv(units, 1n << shift)) * 2 ** Number(shift - UNIT_BITS);
}
