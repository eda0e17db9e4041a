/** The key that reports are sealed to, as a relay and a collector list it. */
import { exchange, isSamePlace, refusalOf, withoutSlash } from "./transport.js";

/**
 * @import { Fetch, Unsent } from "./transport.js"
 */

const LARGEST_LIST = 64 * 2 ** 10;
const MOST_KEYS = 200;
const SUITE = "x25519-hkdf-sha256-aes128gcm";
const KEY = /^[0-9a-f]{64}$/;

/** @type {(code: string) => Unsent} */
const because = (code) => ({ code, said: "", after: null });

/**
 * The newest of the collector's keys that the relay lists too, in hexadecimal digits, before a moment of
 * `performance.now()`; or why there is none.
 *
 * @param {{ relay: string, collector: string | undefined, fetch: Fetch, ends: number }} places
 * @returns {Promise<string | Unsent>}
 */
export async function sharedKey({ relay, collector, fetch, ends }) {
  // Who lists its own keys twice proves nothing.
  if (collector === undefined || isSamePlace(collector, relay)) return because("no-collector");
  const listed = await fetchKeys(relay, fetch, ends);
  if ("code" in listed) return listed;
  const own = await fetchKeys(collector, fetch, ends);
  if ("code" in own) return own;
  return own.find((key) => listed.includes(key)) ?? because("keys-differ");
}

/**
 * The keys that are listed at an address, the newest first; or why there are none.
 *
 * @param {string} url
 * @param {Fetch} fetch
 * @param {number} ends
 * @returns {Promise<string[] | Unsent>}
 */
async function fetchKeys(url, fetch, ends) {
  const address = `${withoutSlash(url)}/v1/keys`;
  try {
    const timeout = ends - performance.now();
    const answer = await exchange({ fetch, address, init: {}, timeout, largest: LARGEST_LIST });
    if (answer.body === null) return { code: refusalOf(answer.status), said: answer.said, after: answer.after };
    return readKeys(answer.body);
  } catch {
    // No answer, or none that can be read: it may be a matter of time.
    return because("waiting");
  }
}

/** @param {string} body */
function readKeys(body) {
  const { suite, keys } = JSON.parse(body);
  /** @type {string[]} */
  const listed = keys.slice(0, MOST_KEYS).map((/** @type {{ public: string }} */ one) => one.public.toLowerCase());
  // Keys for something else: of another version.
  return suite === SUITE && listed.every((key) => KEY.test(key)) ? listed : because("keys-differ");
}
