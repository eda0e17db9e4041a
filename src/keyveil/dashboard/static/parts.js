/** Small parts that several pages show. */

import { h, put } from "./dom.js";
import { count, when } from "./format.js";

/** A number that matters, with its name and a note; `tile.show(value, note)` changes it. */
export function tile(label, value = "\u2026", note = "") {
  const number = h("dd", { class: "big" }, value);
  const below = h("dd", { class: "muted" }, note);
  const box = h("div", { class: "tile" }, h("dt", {}, label), number, below);
  box.show = (nextValue, nextNote = "") => {
    if (number.textContent !== String(nextValue)) put(number, nextValue);
    if (below.textContent !== String(nextNote)) put(below, nextNote);
  };
  return box;
}

/** Tiles in a row. */
export const tiles = (...all) => h("dl", { class: "tiles" }, all);

/** What a page of results says before there are any. */
export const noReportYet = (id) =>
  h(
    "section",
    { class: "empty" },
    h("h2", {}, "No report yet"),
    h(
      "p",
      {},
      "There is nothing to show before devices have reported. ",
      h("a", { href: `#/c/${id}` }, "See the progress"),
      "; this page can be looked at any time.",
    ),
  );

/** Nothing, where the answer is that nobody reported yet. */
export function ifNoReports(error) {
  if (error.code !== "no-reports") throw error;
  return null;
}

/** A labelled control. */
export function field(label, control, note) {
  control.id ||= `f-${label.toLowerCase().replace(/[^a-z]+/g, "-")}`;
  return h(
    "p",
    { class: "field" },
    h("label", { for: control.id }, label),
    control,
    note && h("span", { class: "muted" }, note),
  );
}

/** A choice; `options` are [value, words]. */
export function choice(id, options, value) {
  const made = h(
    "select",
    { id },
    options.map(([name, words]) => h("option", { value: name }, words)),
  );
  made.value = options.some(([name]) => name === value) ? value : options[0][0];
  return made;
}

// Rows of a searched table that are drawn at once, and with every "more".
const ROWS = 50;

/**
 * A table that is searched by key, narrowed by a choice and drawn part by part; the address remembers both.
 *
 * @param {object} of
 * @param {string} of.title
 * @param {string} of.what what a row is, for "50 pairs"; the plural has an s
 * @param {[string, string][]} of.options the choice, everything first, named "all"
 * @param {number[]} of.order the rows
 * @param {(row: number, wanted: string, which: string) => unknown} of.fits whether a row is wanted
 * @param {(row: number) => Element} of.line
 * @param {string} of.look the table's class
 * @param {Element[]} of.heads
 * @param {Element} [of.note] what stands below
 * @param {{ query: URLSearchParams, remember: (said: object, usual: object) => void }} place
 */
export function searched({ title, what, options, order, fits, line, look, heads, note }, { query, remember }) {
  const search = h("input", {
    type: "search",
    id: "q",
    value: query.get("q") ?? "",
    placeholder: "Key",
    autocomplete: "off",
  });
  const which = choice("which", options, query.get("show") ?? "all");
  const body = h("tbody");
  const status = h("p", { class: "muted", role: "status" });
  const pager = h("div", { class: "pager" });
  let most = ROWS;
  const show = () => {
    const wanted = search.value.trim().toLowerCase();
    const fitting = order.filter((row) => fits(row, wanted, which.value));
    put(body, fitting.slice(0, most).map(line));
    put(
      status,
      fitting.length
        ? `${count(fitting.length)} ${what}s; ${count(Math.min(most, fitting.length))} shown.`
        : `No ${what} fits.`,
    );
    put(pager, fitting.length > most && more);
    remember({ q: wanted, show: which.value }, { show: "all" });
  };
  const showMore = () => {
    most += ROWS;
    show();
  };
  const more = h("button", { type: "button", onclick: showMore }, `Show ${ROWS} more`);
  search.addEventListener("input", show);
  which.addEventListener("change", show);
  show();
  return h(
    "section",
    {},
    h("h2", {}, title),
    h("div", { class: "controls" }, field("Search", search), field("Show", which)),
    status,
    h(
      "div",
      { class: "scroll", role: "region", "aria-label": title, tabindex: 0 },
      h("table", { class: look }, h("thead", {}, h("tr", {}, heads)), body),
    ),
    pager,
    note,
  );
}

/** Ask before something that cannot be undone; resolves to whether the answer was yes. */
export function confirm(title, words, yes) {
  return new Promise((resolve) => {
    let answer = false;
    const dialog = h(
      "dialog",
      { "aria-labelledby": "confirm-title" },
      h("h2", { id: "confirm-title" }, title),
      h("p", {}, words),
      h(
        "p",
        { class: "buttons" },
        h(
          "button",
          {
            type: "button",
            class: "primary",
            onclick: () => {
              answer = true;
              dialog.close();
            },
          },
          yes,
        ),
        h("button", { type: "button", onclick: () => dialog.close() }, "Cancel"),
      ),
    );
    dialog.addEventListener("close", () => {
      dialog.remove();
      resolve(answer);
    });
    document.body.append(dialog);
    dialog.showModal();
  });
}

/**
 * What the statuses of reports mean, in a few words.
 *
 * @type {Record<string, string>}
 */
export const STATUS_WORDS = {
  accepted: "counted",
  duplicate: "counted before; not a fault",
  "round-closed": "for a round that is over",
  "wrong-round": "for a round that is not open yet",
  "wrong-campaign": "for another campaign",
  "wrong-length": "not as long as a report is",
  "unknown-version": "of a version not known here",
  "not-canonical": "bytes that no device sends",
  "wrong-cohort": "an index or hash that the report's id does not give",
  "not-json": "no report",
};

/**
 * What to do where many reports are refused for the same reason.
 *
 * @type {Record<string, string>}
 */
const ADVICE = {
  "wrong-campaign": "Devices hold an older campaign: ship them this one, or its address.",
  "round-closed": "They come too late: devices are offline for long, or the round was closed early.",
  "wrong-round": "Devices think that another round is open: they must fetch the open one.",
  "wrong-length": "Something between devices and collector changes them, or another program sends: look at who does.",
  "not-canonical": "No keyveil device sends such bytes: look at who does.",
  "wrong-cohort": "No keyveil device sends such bytes: look at who does.",
  "unknown-version": "Devices are newer than this collector: update it.",
};
// Fewer are normal: clocks and rounds that have just changed. One in fifty moves results by up to two points, which
// is what results are usually unsure by.
const MANY = 20;
const MUCH = 0.02;

/** An alarm where many reports of all are refused, in a sentence with what to do; nothing else. */
export function refusalAlarm(counts, at) {
  const { accepted = 0, duplicate: _, ...others } = counts;
  const [[worst] = [""]] = Object.entries(others).sort((a, b) => b[1] - a[1]);
  const lost = Object.values(others).reduce((sum, n) => sum + n, 0);
  const share = lost / Math.max(1, lost + accepted);
  if (lost < MANY || share < MUCH) return null;
  return h(
    "section",
    { class: "trouble", role: "alert" },
    h("h2", {}, "Many reports are refused"),
    h(
      "p",
      {},
      `${count(lost)} of ${count(lost + accepted)} reports, ${Math.round(100 * share)} %, mostly `,
      h("code", {}, worst),
      at ? `, the last ${when(at)}. ` : ". ",
      h("strong", {}, "What to do: "),
      ADVICE[worst] ?? "See the reasons below.",
    ),
  );
}

/** Refusals by reason as a table; `counts` by status. */
export function refusals(counts, words = STATUS_WORDS) {
  const rows = Object.entries(counts)
    .filter(([status, n]) => status !== "accepted" && n > 0)
    .sort((a, b) => b[1] - a[1]);
  if (!rows.length) return h("p", { class: "muted" }, "Nothing was refused.");
  const most = Math.max(...rows.map(([, n]) => n));
  const hasWords = rows.some(([status]) => words[status]);
  return h(
    "div",
    { class: "scroll refusals", role: "region", "aria-label": "Refusals", tabindex: 0 },
    h(
      "table",
      {},
      h(
        "thead",
        {},
        h(
          "tr",
          {},
          h("th", { scope: "col" }, "Reason"),
          hasWords && h("th", { scope: "col" }, "Meaning"),
          h("th", { scope: "col", class: "number" }, "Count"),
          h("th", { scope: "col" }, h("span", { class: "unseen" }, "Share")),
        ),
      ),
      h(
        "tbody",
        {},
        rows.map(([status, n]) =>
          h(
            "tr",
            {},
            h(
              "th",
              { scope: "row" },
              h("a", { href: `/errors#${status in STATUS_WORDS ? "report-" : ""}${status}` }, h("code", {}, status)),
            ),
            hasWords && h("td", {}, words[status] ?? ""),
            h("td", { class: "number" }, n.toLocaleString("en")),
            h("td", {}, h("meter", { min: 0, max: most, value: n, "aria-label": `${status}: ${n}` })),
          ),
        ),
      ),
    ),
  );
}
