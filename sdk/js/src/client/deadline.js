/** Nobody waits longer than they said, whatever the other side does. */

/**
 * What `work` yields, unless the time is over first; then `work`'s signal is aborted and nobody waits for it.
 *
 * @template T
 * @param {number} milliseconds
 * @param {(signal: AbortSignal) => Promise<T>} work
 * @returns {Promise<T>}
 */
export async function within(milliseconds, work) {
  const controller = new AbortController();
  let timer;
  /** @type {Promise<never>} */
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error("the time is over")), Math.max(0, milliseconds));
  });
  try {
    return await Promise.race([work(controller.signal), late]);
  } finally {
    clearTimeout(timer);
    controller.abort();
  }
}
