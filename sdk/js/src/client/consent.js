/** Whether the person was asked, and what they said: to this device, or to their browser. */
import { refuse } from "../refusals.js";

/**
 * @import { LedgerState } from "../../index.d.ts"
 *
 * @typedef {object} Environment where wishes and the page are looked for: `globalThis`, or a test's own
 * @property {{ globalPrivacyControl?: unknown, doNotTrack?: unknown }} [navigator]
 * @property {unknown} [doNotTrack]
 * @property {{ env?: Record<string, string | undefined> }} [process]
 * @property {Document} [document]
 * @property {typeof BroadcastChannel} [BroadcastChannel]
 * @property {typeof addEventListener} [addEventListener]
 * @property {typeof removeEventListener} [removeEventListener]
 */

/**
 * Whether the person asked, by a setting of the browser or the machine, not to be asked.
 *
 * @param {Environment} environment
 */
export function asksNotToTrack(environment = globalThis) {
  const navigator = environment.navigator ?? {};
  const variable = environment.process?.env?.DO_NOT_TRACK?.trim().toLowerCase();
  return (
    navigator.globalPrivacyControl === true ||
    [navigator.doNotTrack, environment.doNotTrack].some((said) => said === "1" || said === "yes") ||
    (variable !== undefined && !["", "0", "false"].includes(variable))
  );
}

/**
 * Refuses where the person does not want it; `needsYes` where silence is not enough.
 *
 * @param {LedgerState} state
 * @param {Environment} environment
 * @param {boolean} needsYes
 */
export function requireConsent({ consent }, environment, needsYes) {
  if (asksNotToTrack(environment)) refuse("do-not-track");
  if (consent === "withdrawn") refuse("disabled");
  if (needsYes && consent === "unasked") refuse("not-enabled");
}
