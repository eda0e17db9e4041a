import { get } from "../api.js";
import { h } from "../dom.js";
import { count, dateOf } from "../format.js";
import { WHY } from "../trends.js";

/** What the states of waves mean. */
const WORDS = { late: "over; late reports are taken", open: "open", finished: "finished", coming: "to come" };

/** Every wave of a series: when, how far, and the way to its own pages. */
export async function draw({ content, params: { series }, signal }) {
  const { waves } = await get(`/v1/series/${series}/waves`, { signal });
  const reports = waves.reduce((sum, wave) => sum + wave.reports, 0);
  const heard = waves.filter((wave) => wave.reports).length;
  content.append(
    h("p", {}, `${count(reports)} reports to ${count(heard)} of ${count(waves.length)} waves.`),
    h(
      "div",
      { class: "scroll", role: "region", "aria-label": "Waves", tabindex: 0 },
      h(
        "table",
        { class: "waves" },
        h(
          "thead",
          {},
          h(
            "tr",
            {},
            ["Wave", "From", "Until", "State", "Reports"].map((title) =>
              h("th", { scope: "col", class: title === "Reports" ? "number" : null }, title),
            ),
          ),
        ),
        h("tbody", {}, inOrder(waves).map(row)),
      ),
    ),
    h(
      "p",
      { class: "muted" },
      "Days are of UTC; a wave ends when the next begins. One that was missed is not made up for.",
    ),
  );
}

/** The newest that has begun first; below them those to come, the next first. */
function inOrder(waves) {
  const begun = waves.filter(({ state }) => state !== "coming");
  return [...begun.reverse(), ...waves.filter(({ state }) => state === "coming")];
}

function row({ number, begins, ends, campaign, why, reports, state }) {
  const name = `Wave ${number}`;
  return h(
    "tr",
    { class: campaign ? null : "noise" },
    h("th", { scope: "row", class: "narrow nowrap" }, campaign ? h("a", { href: `#/c/${campaign}` }, name) : name),
    h("td", { class: "nowrap" }, dateOf(begins)),
    h("td", { class: "nowrap" }, dateOf(ends)),
    h(
      "td",
      {},
      h("span", { class: `badge ${state}` }, state),
      h(
        "span",
        { class: "muted" },
        state === "missed" ? ` ${WHY[why] ?? why}` : ` ${WORDS[state] === state ? "" : (WORDS[state] ?? "")}`,
      ),
    ),
    h("td", { class: "number" }, campaign ? count(reports) : ""),
  );
}
