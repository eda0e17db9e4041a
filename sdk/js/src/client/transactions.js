/** The ledger as a device uses it: one transaction at a time, and a clock that never goes back. */
import { Refused } from "../refusals.js";

/** @import { Ledger, LedgerState } from "../../index.d.ts" */

/**
 * One transaction. The latest time is kept also where the change is refused; a change is refused before it changes
 * anything.
 *
 * @template T
 * @param {{ ledger: Ledger, now: () => number }} options
 * @param {(state: LedgerState) => T} change
 * @returns {Promise<T>}
 */
export async function transact({ ledger, now }, change) {
  const outcome = await ledger.update((state) => {
    const time = now();
    if (time > state.latest) state.latest = time;
    // What an older version did not note the time of was given by now.
    for (const answer of state.answers) answer.at ??= state.latest;
    try {
      return { result: change(state) };
    } catch (error) {
      if (error instanceof Refused) return { refused: error };
      throw error;
    }
  });
  if ("refused" in outcome) throw outcome.refused;
  return outcome.result;
}
