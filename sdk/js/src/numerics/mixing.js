/** A fixed permutation of words whose outputs look drawn: what public hashes are made of. */

const MASK = 2n ** 64n - 1n;

/**
 * Steele, Lea and Flood's splitmix64 finaliser, of a number modulo 2^64.
 *
 * @param {bigint} x
 */
export function mix(x) {
  x = (x + 0x9e3779b97f4a7c15n) & MASK;
  x = ((x ^ (x >> 30n)) * 0xbf58476d1ce4e5b9n) & MASK;
  x = ((x ^ (x >> 27n)) * 0x94d049bb133111ebn) & MASK;
  return x ^ (x >> 31n);
}
