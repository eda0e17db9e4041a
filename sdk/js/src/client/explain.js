/**
 * What happened, in words for the person whose device it is.
 *
 * Somebody who thinks a thing as likely as not, and then sees a report that is `ratio` times as likely if the thing
 * is true, thinks it true with ratio / (1 + ratio); the ratio never exceeds exp(epsilon).
 */
import { wordsOf } from "../descriptions/segments.js";
import { toHex } from "../numerics/bytes.js";

/** @import { Campaign, Held, Status } from "../../index.d.ts" */

const SHOWN = 5;

/**
 * A few sentences: what is asked, what is true, what was sent, what can be guessed from it.
 *
 * @typedef {object} Story
 * @property {Campaign} campaign
 * @property {number[] | null} panel the waves that this device answers, where the campaign is one
 * @property {Held} held
 * @property {Uint8Array | null} sent the answer, as it was sent
 * @property {number[]} labels what was told in the clear beside it, or will be
 * @property {number} price
 * @property {Status} status
 *
 * @param {Story} told
 */
export function tell({ campaign, panel, held, sent, labels, price, status }) {
  return [
    asked(campaign),
    truth(campaign, held),
    said(sent, isAsked(campaign, panel)),
    ...told(campaign, labels, sent ? "The report says" : "A report says"),
    ...went(status),
    ...often(campaign, panel),
    `One answer to this round moves no guess further than from 50 % to ${after(price)}.`,
    `Spent so far: epsilon ${short(status.spent)} of the ${short(status.promised)} that the campaign promised not to ` +
      `exceed, ${short(status.spentInAll)}${bounded(status)} in all: ` +
      `from 50 % to at most ${after(status.spentInAll)}. ${worst(status)}`,
    ...inAYear(status),
  ].join("\n");
}

/** @param {Status} status */
const bounded = ({ worstCase }) => (worstCase < Infinity ? ` of ${short(worstCase)}` : "");

/** @param {Status} status */
const worst = ({ worstCase }) =>
  worstCase < Infinity
    ? `The worst that can ever come of all questions together: from 50 % to ${after(worstCase)}.`
    : "What may come of later years has no end.";

/** @param {Status} status */
function inAYear({ spentInAYear, yearlyCap }) {
  if (yearlyCap === null) return [];
  const most = `from 50 % to at most ${after(yearlyCap)} in any 365 days`;
  return [`Per year: ${short(spentInAYear)} of ${short(yearlyCap)}, ${most}.`];
}

/**
 * @param {Campaign} campaign
 * @param {number[] | null} panel
 */
const isAsked = ({ series }, panel) => series === null || panel === null || panel.includes(series.wave);

/**
 * How often this device answers a series, and when, which nobody else knows.
 *
 * @param {Campaign} campaign
 * @param {number[] | null} panel
 */
function often({ series }, panel) {
  if (series === null || panel === null) return [];
  return [
    `It is asked every ${series.every}, ${series.waves} times. This device answers ${series.answers} of these waves ` +
      `(${panel.join(", ")}), each once; nobody else knows which, and what is held has no part in it.`,
    "With the first answer the price of all of them is booked. Whoever stops says nothing more; what was told stays " +
      "told, and nothing that was told tells when one stopped.",
  ];
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

/**
 * @param {Uint8Array | null} sent
 * @param {boolean} isAskedHere
 */
function said(sent, isAskedHere) {
  if (!sent) return isAskedHere ? "Sent: nothing yet." : "Sent: nothing; this wave asks other devices.";
  const shown = `${toHex(sent.subarray(0, 8))}${sent.length > 8 ? "..." : ""}`;
  return `Sent: ${sent.length} noised bytes (${shown}), the same number for everybody; asked again, the same bytes.`;
}

/**
 * What a report tells without noise, where the campaign asks for that.
 *
 * @param {Campaign} campaign
 * @param {readonly number[]} labels
 * @param {string} says
 */
function told({ segments }, labels, says) {
  if (segments === null || labels.length === 0) return [];
  const words = wordsOf(segments, labels);
  return [`${says} in the clear, without noise: ${words}. This is not private: whoever reads it knows.`];
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
