/**
 * What happened, in words for the person whose device it is.
 *
 * Somebody who thinks a thing as likely as not, and then sees a report that is `ratio` times as likely if the thing
 * is true, thinks it true with ratio / (1 + ratio); the ratio never exceeds exp(epsilon).
 */
import { toHex } from "../numerics/bytes.js";

/** @import { Campaign, Held, Status } from "../../index.d.ts" */

const SHOWN = 5;

/**
 * A few sentences: what is asked, what is true, what was sent, what can be guessed from it.
 *
 * @param {{ campaign: Campaign, held: Held, sent: Uint8Array | null, price: number, status: Status }} told
 */
export function tell({ campaign, held, sent, price, status }) {
  return [
    asked(campaign),
    truth(campaign, held),
    said(sent),
    ...went(status),
    `One answer to this round moves no guess further than from 50 % to ${after(price)}.`,
    `Spent so far: epsilon ${short(status.spent)} of the ${short(status.promised)} that the campaign promised not to ` +
      `exceed, ${short(status.spentInAll)} of ${short(status.worstCase)} in all: ` +
      `from 50 % to at most ${after(status.spentInAll)}. ` +
      `The worst that can ever come of all questions together: from 50 % to ${after(status.worstCase)}.`,
  ].join("\n");
}

/** @param {Campaign} campaign */
function asked({ name, owner, purpose }) {
  return `The question "${name}" is asked${owner && ` by ${owner}`}${purpose && `, to ${purpose}`}.`;
}

/**
 * @param {Campaign} campaign
 * @param {Held} held
 */
function truth({ codes, other }, held) {
  const entries = held instanceof Map ? [...held] : Object.entries(held);
  const known = entries.filter(([name]) => other || codes.has(name)).map(([name, value]) => `${name} ${value}`);
  const more = known.length > SHOWN ? ` and ${known.length - SHOWN} more` : "";
  return (
    `True here: ${known.slice(0, SHOWN).join(", ") || "nothing that is asked about"}${more}. This stays ` +
    "on the device."
  );
}

/** @param {Uint8Array | null} sent */
function said(sent) {
  if (!sent) return "Sent: nothing yet.";
  const shown = `${toHex(sent.subarray(0, 8))}${sent.length > 8 ? "..." : ""}`;
  return `Sent: ${sent.length} noised bytes (${shown}), the same number for everybody; asked again, the same bytes.`;
}

const WAYS = {
  direct: "It goes to the collector, which also sees the address that it comes from.",
  relay:
    "It goes sealed through a relay: the relay sees the address that it comes from and cannot read it, the collector " +
    "reads it and sees no address. If they work together, all that is said below still holds.",
};

/** @param {Status} status */
function went({ route }) {
  return route === null ? [] : [WAYS[route]];
}

/** @param {number} number */
const short = (number) => String(Number(number.toPrecision(4)));

/**
 * A chance in words; never rounded to certainty.
 *
 * @param {number} chance
 */
function percent(chance) {
  for (const digits of [0, 1, 2, 3, 4, 5]) {
    const shown = (100 * chance).toFixed(digits);
    if (0 < Number(shown) && Number(shown) < (digits ? 100 : 99.5)) return `${shown} %`;
  }
  return chance > 0.5 ? "nearly 100 %" : "nearly 0 %";
}

/** @param {number} epsilon */
const after = (epsilon) => percent(1 / (1 + Math.exp(-epsilon)));
