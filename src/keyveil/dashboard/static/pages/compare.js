import { get, Trouble } from "../api.js";
import { figure, intervalMark } from "../charts.js";
import { h, nameNode, put, shown } from "../dom.js";
import { Found } from "../found.js";
import { count, digitsFor, percent, value, zOfAll } from "../format.js";
import { choice, field } from "../parts.js";

const Z95 = 1.959963984540054;
const SHOWN = 200;

/** Two campaigns side by side, key by key. */
export async function draw({ content, params: { id }, query, remember, signal }) {
  const { campaigns } = await get("/v1/campaigns", { signal });
  const others = campaigns.filter((one) => one.id !== id && one.state !== "damaged").reverse();
  if (!others.length) {
    content.append(
      h(
        "section",
        { class: "empty" },
        h("h2", {}, "Nothing to compare with"),
        h(
          "p",
          {},
          "This collector has no other campaign that your token is for. Ask the same question again later, " +
            "and the two can be compared here.",
        ),
      ),
    );
    return;
  }
  const label = (one) => {
    const name = shown(one.name);
    return (
      `${name.length > 60 ? `${[...name].slice(0, 58).join("")}\u2026` : name} (${count(one.reports)} ` +
      `reports, ${one.id.slice(0, 6)})`
    );
  };
  const other = choice(
    "with",
    [["", "choose a campaign"], ...others.map((one) => [one.id, label(one)])],
    query.get("with") ?? "",
  );
  const only = choice(
    "only",
    [
      ["all", "all keys"],
      ["differ", "keys that differ"],
    ],
    query.get("only") ?? "all",
  );
  const result = h("div");
  const show = async () => {
    remember({ with: other.value, only: only.value }, { only: "all" });
    if (!other.value) {
      put(result, h("p", { class: "muted" }, "Choose the campaign to compare with."));
      return;
    }
    try {
      const [one, two] = await Promise.all([Found.fetch(id, "none", signal), Found.fetch(other.value, "none", signal)]);
      put(result, await compared(one, two, only.value === "differ", content.clientWidth));
    } catch (error) {
      if (signal.aborted) return;
      if (!(error instanceof Trouble)) throw error;
      put(
        result,
        h(
          "section",
          { class: "trouble", role: "alert" },
          h("h2", {}, error.title),
          h("p", {}, error.detail),
          h("p", {}, h("strong", {}, "What to do: "), error.remedy),
        ),
      );
    }
  };
  other.addEventListener("change", show);
  only.addEventListener("change", show);
  content.append(h("div", { class: "controls" }, field("Compare with", other), field("Show", only)), result);
  await show();
}

/** Differences of the keys that both ask about, by name. */
export function differences(one, two) {
  const place = new Map(two.columns.key.map((name, code) => [name, code]));
  const rows = [];
  one.columns.key.forEach((name, a) => {
    const b = place.get(name);
    if (b === undefined) return;
    const [seA, seB] = [one.columns.frequency_se[a], two.columns.frequency_se[b]];
    if (seA === null || seB === null) return;
    const gap = two.raw[b] - one.raw[a];
    const error = Math.hypot(seA, seB);
    const [meanA, meanB] = [one.hasMean(a) ? one.columns.mean[a] : null, two.hasMean(b) ? two.columns.mean[b] : null];
    const meanError = Math.hypot(one.columns.mean_se[a] ?? Infinity, two.columns.mean_se[b] ?? Infinity);
    const hasMean = meanA !== null && meanB !== null && Number.isFinite(meanError);
    rows.push({
      name: one.names[a],
      a,
      b,
      first: one.raw[a],
      second: two.raw[b],
      gap,
      error,
      z: gap / error,
      meanGap: hasMean ? meanB - meanA : null,
      meanError,
    });
  });
  // What is said of the key that differs most must hold for all keys, and for frequencies and means.
  const z = zOfAll(2 * rows.length);
  for (const row of rows) {
    row.differs = Math.abs(row.z) > z;
    row.meanDiffers = row.meanGap !== null && Math.abs(row.meanGap) > z * row.meanError;
  }
  return { rows: rows.sort((x, y) => Math.abs(y.z) - Math.abs(x.z)), z };
}

async function compared(one, two, onlyDiffering, width) {
  const { rows, z } = differences(one, two);
  if (!rows.length) {
    return h(
      "section",
      { class: "empty" },
      h("h2", {}, "No key in common"),
      h(
        "p",
        {},
        one.users && two.users ? "The two campaigns ask about different keys." : "One of the two has no report yet.",
      ),
    );
  }
  const differing = rows.filter((row) => row.differs || row.meanDiffers);
  const shownRows = (onlyDiffering ? differing : rows).slice(0, SHOWN);
  const digits = digitsFor(100 * Math.min(...rows.map((row) => row.error)) * 2);
  const meanDigits = digitsFor((one.value_range[1] - one.value_range[0]) / 50);
  const reach = Math.max(...rows.slice(0, SHOWN).map((row) => Math.abs(row.gap) + Z95 * row.error));
  const sameScale = one.value_range[0] === two.value_range[0] && one.value_range[1] === two.value_range[1];
  const signed = (text) => (text.startsWith("\u2212") ? text : `+${text}`);
  const body = shownRows.map((row) =>
    h(
      "tr",
      { class: row.differs || row.meanDiffers ? null : "noise" },
      h("th", { scope: "row" }, nameNode(row.name)),
      h("td", { class: "number" }, percent(row.first, digits)),
      h("td", { class: "number" }, percent(row.second, digits)),
      h(
        "td",
        { class: "interval" },
        intervalMark(row.gap - Z95 * row.error, row.gap, row.gap + Z95 * row.error, { from: -reach, to: reach }),
        h("span", {}, `${signed(value(100 * row.gap, digits))} \u00b1 ${value(100 * Z95 * row.error, digits)}`),
      ),
      h("td", {}, row.differs ? h("strong", {}, row.gap > 0 ? "more" : "fewer") : "not told apart"),
      sameScale &&
        h(
          "td",
          { class: "number nowrap" },
          row.meanGap === null
            ? "unknown"
            : `${signed(value(row.meanGap, meanDigits))} \u00b1 ${value(Z95 * row.meanError, meanDigits)}`,
        ),
      sameScale &&
        h(
          "td",
          {},
          row.meanGap === null
            ? ""
            : row.meanDiffers
              ? h("strong", {}, row.meanGap > 0 ? "higher" : "lower")
              : "not told apart",
        ),
    ),
  );
  const moved = differing.filter((row) => row.differs).slice(0, 15);
  const chart = moved.length ? await gapChart(moved, width) : null;
  const columns = [
    "Key",
    "This",
    "That",
    "Difference in % points, 95 %",
    "That has",
    ...(sameScale ? ["Difference of means, 95 %", "That is"] : []),
  ];
  return h(
    "div",
    {},
    h(
      "p",
      { class: "note", role: "status" },
      differing.length
        ? `${count(differing.length)} of ${count(rows.length)} keys differ.`
        : `None of ${count(rows.length)} keys can be said to differ.`,
      ` A key counts as different where the gap exceeds ${z.toFixed(2)} standard errors: so wide that, if ` +
        "nothing differed, not one of all these statements would be wrong 95 of 100 times. \u201cThis\u201d is " +
        "the campaign of this page; the noise of the two is independent, so variances add.",
    ),
    chart,
    h(
      "div",
      { class: "scroll", role: "region", "aria-label": "Differences", tabindex: 0 },
      h(
        "table",
        { class: "keys" },
        h(
          "thead",
          {},
          h(
            "tr",
            {},
            columns.map((title, at) =>
              h("th", { scope: "col", class: [1, 2, 5].includes(at) ? "number" : null }, title),
            ),
          ),
        ),
        h("tbody", {}, body),
      ),
    ),
    (onlyDiffering ? differing : rows).length > SHOWN &&
      h("p", { class: "muted" }, `The ${SHOWN} largest differences are shown.`),
  );
}

async function gapChart(rows, width) {
  const data = rows.map((row, at) => ({
    at,
    low: 100 * (row.gap - Z95 * row.error),
    high: 100 * (row.gap + Z95 * row.error),
    middle: 100 * row.gap,
  }));
  const label = (at) => {
    const name = shown(rows[at].name);
    return name.length > 22 ? `${[...name].slice(0, 20).join("")}\u2026` : name;
  };
  const drawn = await figure((Plot) => ({
    width: width - 40,
    height: 58 + 22 * rows.length,
    marginTop: 6,
    marginBottom: 44,
    marginLeft: Math.min(175, width / 3),
    marginRight: 16,
    y: { type: "point", domain: data.map(({ at }) => at) },
    x: { label: "difference in people, % points", nice: true },
    ariaLabel: "Differences with 95 % intervals; the table below has the numbers",
    marks: [
      Plot.gridX({ stroke: "var(--line)", strokeOpacity: 1 }),
      Plot.axisX({ color: "var(--muted)", labelOffset: 38 }),
      Plot.axisY({ tickFormat: label, tickSize: 0, label: null, color: "var(--ink)" }),
      Plot.ruleX([0], { stroke: "var(--muted)" }),
      Plot.ruleY(data, {
        y: "at",
        x1: "low",
        x2: "high",
        stroke: "var(--orange)",
        strokeWidth: 5,
        strokeOpacity: 0.4,
        strokeLinecap: "round",
      }),
      Plot.dot(data, { y: "at", x: "middle", fill: "var(--orange)", r: 4 }),
    ],
  }));
  return h("section", { class: "card" }, h("h2", {}, "What changed most"), drawn);
}
