/** Numbers and times as people read them; and the little of the normal law that the pages need. */

const whole = new Intl.NumberFormat("en");
const date = new Intl.DateTimeFormat("en-GB", { dateStyle: "medium", timeStyle: "short" });

export const count = (n) => whole.format(n);

/** A share as a percentage with as many digits as the numbers beside it need. */
export function percent(share, digits = 2) {
  if (share === null || share === undefined || !Number.isFinite(share)) return "?";
  const text = (100 * share).toFixed(digits);
  return `${Number(text) === 0 ? (0).toFixed(digits) : text.replace("-", "\u2212")} %`;
}

/** A value in the campaign's own unit. */
export function value(x, digits = 2) {
  if (x === null || x === undefined || !Number.isFinite(x)) return "?";
  const text = x.toFixed(digits);
  return Number(text) === 0 ? (0).toFixed(digits) : text.replace("-", "\u2212");
}

/** Three digits, whatever the size. */
export const short = (x) =>
  x === null || x === undefined || !Number.isFinite(x) ? "?" : Number(x.toPrecision(3)).toString();

/** Digits behind the point so that an interval of this width shows two of them. */
export function digitsFor(width) {
  if (!(width > 0) || !Number.isFinite(width)) return 1;
  return Math.min(6, Math.max(0, 1 - Math.floor(Math.log10(width))));
}

export const when = (seconds) =>
  seconds === null || seconds === undefined ? "" : date.format(new Date(1000 * seconds));

const dayOnly = new Intl.DateTimeFormat("en-GB", { dateStyle: "medium" });

/** The day of a moment. */
export const day = (seconds) => dayOnly.format(new Date(1000 * seconds));

const calendarDay = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short", timeZone: "UTC" });
const calendarDate = new Intl.DateTimeFormat("en-GB", { dateStyle: "medium", timeZone: "UTC" });

/** The day of a calendar that is kept in UTC, as waves' are: without the year, and with it. */
export const dayOf = (seconds) => calendarDay.format(new Date(1000 * seconds));
export const dateOf = (seconds) => calendarDate.format(new Date(1000 * seconds));

/** A campaign's name as the name of a file. */
export const fileName = (name) =>
  name
    .normalize("NFKC")
    .replace(/[^\p{L}\p{N}]+/gu, "-")
    .replace(/^-|-$/g, "")
    .slice(0, 60) || "keyveil";

/** A span of time in one or two units. */
export function span(seconds) {
  if (!Number.isFinite(seconds)) return "never at this rate";
  /** @type {[string, number][]} */
  const units = [
    ["day", 86400],
    ["hour", 3600],
    ["minute", 60],
    ["second", 1],
  ];
  let rest = Math.max(0, Math.round(seconds));
  const said = [];
  for (const [name, size] of units) {
    const n = Math.floor(rest / size);
    rest -= n * size;
    if (n) said.push(`${count(n)} ${name}${n === 1 ? "" : "s"}`);
    if (said.length === 2) break;
  }
  return said.join(" ") || "no time";
}

// Beyond it digits tell nobody more.
const SURE = 0.999;

/** How often a guess between two records is right at most, by whoever sees all that epsilon paid for; half before. */
export const bestGuess = (epsilon) => 1 / (1 + Math.exp(-epsilon));

export const guessWords = (epsilon) =>
  bestGuess(epsilon) > SURE ? `over ${percent(SURE, 1)}` : percent(bestGuess(epsilon), 1);

/** A refusal's words as a sentence. */
export const asSentence = (text) => `${text.charAt(0).toUpperCase()}${text.slice(1)}${/[.!?]$/.test(text) ? "" : "."}`;

/** Quantile of the standard normal law (Acklam's rational approximation: nine digits). */
export function normalQuantile(p) {
  const a = [
    -39.69683028665376, 220.9460984245205, -275.9285104469687, 138.357751867269, -30.66479806614716, 2.506628277459239,
  ];
  const b = [-54.47609879822406, 161.5858368580409, -155.6989798598866, 66.80131188771972, -13.28068155288572];
  const c = [
    -0.007784894002430293, -0.3223964580411365, -2.400758277161838, -2.549732539343734, 4.374664141464968,
    2.938163982698783,
  ];
  const d = [0.007784695709041462, 0.3224671290700398, 2.445134137142996, 3.754408661907416];
  const tail = (q) =>
    (((((c[0] * q + c[1]) * q + c[2]) * q + c[3]) * q + c[4]) * q + c[5]) /
    ((((d[0] * q + d[1]) * q + d[2]) * q + d[3]) * q + 1);
  let x;
  if (p < 0.02425) x = tail(Math.sqrt(-2 * Math.log(p)));
  else if (p > 1 - 0.02425) x = -tail(Math.sqrt(-2 * Math.log(1 - p)));
  else {
    const q = p - 0.5;
    const r = q * q;
    x =
      ((((((a[0] * r + a[1]) * r + a[2]) * r + a[3]) * r + a[4]) * r + a[5]) * q) /
      (((((b[0] * r + b[1]) * r + b[2]) * r + b[3]) * r + b[4]) * r + 1);
  }
  return x;
}

/** Standard errors either side that cover all of `statements` statements together, 95 of 100 times. */
export const zOfAll = (statements) => -normalQuantile(0.025 / Math.max(1, statements));
