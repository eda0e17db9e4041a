/**
 * What a device may answer: stable codes, and one plain sentence for each.
 *
 * Python says the same sentences (a test compares the tables). None holds anything about a record.
 */

export const SENTENCES = Object.freeze({
  done: "Done.",

  // Consent.
  "not-enabled": "Reporting is off until enable() is called; ask the person first.",
  disabled: "Reporting was switched off; enable() switches it on.",
  "do-not-track": "The person asked not to be tracked; nothing is reported while that is so.",

  // What is asked.
  expired: "The campaign is over.",
  "bad-description": "The description of the round is not one that this device answers; nothing was read.",
  "unknown-version": "The description has a format that this version does not read; update keyveil.",
  "unknown-mechanism": "The description names a mechanism that this version does not know; update keyveil.",
  "other-campaign": "The description belongs to another campaign.",

  // One vote.
  pinned: "This round was answered under another description; no other is ever answered.",
  answered: "This round was answered, and the answer was wiped when reporting was switched off.",
  "other-group": "This round asks other devices.",
  "other-wave": "This wave of the series asks other devices.",
  "small-group": "This round asks fewer devices at once than its campaign does; so few would not hide each other.",
  "over-promise": "With this round the device would say more than the campaign promised.",
  "over-campaign-cap": "With this round the device would spend more than it allows one campaign.",
  "over-lifetime-cap": "With this round the device would spend more than it allows all campaigns together.",
  "over-yearly-cap": "With this round the device would spend more than it allows in a year.",
  "bad-record": "A record maps names of keys to numbers; this one does not.",

  // The ledger.
  "no-ledger": "A device needs a ledger, which remembers what was spent; pass one.",
  "ledger-corrupt": "The ledger cannot be believed, so what was spent is unknown; nothing is reported.",
  "ledger-unwritable": "The ledger cannot be written; nothing is reported without it.",
  "ledger-busy": "Another process holds the ledger; try again.",

  // The collector.
  "no-collector": "No collector is named; pass its address.",
  "https-required": "Reports travel by https only, or within this machine.",
  waiting: "The collector is not ready; reports wait, try again later.",
  "token-refused": "The collector wants another token than this device has; reports wait.",
  refused: "The collector refuses the request, and repeating it does not help; reports wait.",
  "no-id": "The collector handed out no id for a report; try again later.",
  "bad-token": "A token is one word of plain letters.",

  // The relay.
  "relay-required": "This campaign takes reports through a relay only; name one. Reports wait.",
  "not-relayed": "This campaign takes no reports through a relay; leave the relay out. Reports wait.",
  "other-route": "This campaign's reports went another way before; a device keeps to one.",
  "keys-differ": "The relay takes no key of the collector's; reports wait.",
  "no-sealing": "Nothing here can seal a report for a relay; reports wait.",

  fault: "Something unexpected happened; nothing was sent.",
});

/** @type {Readonly<Record<string, string>>} */
const SENTENCE_OF = SENTENCES;

/**
 * What is refused. `code` is stable; the message is the code's sentence, or says more. `said` is what a collector said,
 * in its own words; it holds nothing of this device.
 */
export class Refused extends Error {
  /**
   * @param {string} code
   * @param {string} [detail]
   * @param {string} [said]
   */
  constructor(code, detail = SENTENCE_OF[code], said = "") {
    super(said ? `${detail} It says: ${said}` : detail);
    this.name = "Refused";
    this.code = code;
    this.said = said;
  }
}

/**
 * @param {string} code
 * @param {string} [detail]
 * @returns {never}
 */
export function refuse(code, detail) {
  throw new Refused(code, detail);
}

/**
 * @param {string} code
 * @param {string} said
 * @returns {never}
 */
export function refuseSaying(code, said) {
  throw new Refused(code, undefined, said);
}
