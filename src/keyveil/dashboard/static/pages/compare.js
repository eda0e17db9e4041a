import { get, Trouble } from "../api.js";
import { figure, intervalMark, intervalMarks } from "../charts.js";
import { h, nameNode, put, shortened, shown } from "../dom.js";
import { Found } from "../found.js";
import { count, day, digitsFor, percent, value, when, zOfAll } from "../format.js";
import { choice, field } from "../parts.js";

const Z95 = 1.959963984540054;
const SHOWN = 200;

/** Two campaigns side by side, key by key: what the newer one says, less what the older one said. */
export async function draw({ content, params: { id }, query, remember, signal }) {
  const { campaigns } = await get("/v1/campaigns", { signal });
  const here = campaigns.find((one) => one.id === id);
  const others = campaigns.filter((one) => one.id !== id && one.state !== "damaged").reverse();
  if (!here || !others.length) {
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
  const other = choice(
    "with",
    [
      ["", "choose a campaign"],
      ...others.map((one) => [one.id, `${titleOf(one)} (${count(one.reports)} reports, ${one.id.slice(0, 6)})`]),
    ],
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
    const line = others.find((one) => one.id === other.value);
    if (!line) {
      put(result, h("p", { class: "muted" }, "Choose the campaign to compare with."));
      return;
    }
    try {
      const [older, newer] = [here, line].sort((x, y) => x.created_at - y.created_at);
      const [before, after] = await Promise.all(
        [older, newer].map(({ id: each }) => Found.fetch(each, "none", signal)),
      );
      put(result, await compared({ older, newer, before, after }, only.value === "differ", content.clientWidth));
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

const LONGEST_TITLE = 40;

/** A campaign's name with the day on which it was created. */
function titleOf({ name, created_at: at }) {
  return `${shortened(name, LONGEST_TITLE)}, ${day(at)}`;
}

/**
 * What two campaigns are called beside each other; where name and day are the same, by the minute.
 *
 * @returns {[string, string]}
 */
function titlesOf(older, newer) {
  const [was, is] = [titleOf(older), titleOf(newer)];
  return was === is ? [`older, ${when(older.created_at)}`, `newer, ${when(newer.created_at)}`] : [was, is];
}

/** Changes of the keys that both ask about, by name: those that are sure first. */
export function changes(before, after) {
  const place = new Map(after.columns.key.map((name, code) => [name, code]));
  const rows = [];
  before.columns.key.forEach((name, a) => {
    const b = place.get(name);
    if (b === undefined) return;
    const [seA, seB] = [before.columns.frequency_se[a], after.columns.frequency_se[b]];
    if (seA === null || seB === null) return;
    const gap = after.raw[b] - before.raw[a];
    const error = Math.hypot(seA, seB);
    const meanA = before.hasMean(a) ? before.columns.mean[a] : null;
    const meanB = after.hasMean(b) ? after.columns.mean[b] : null;
    const meanError = Math.hypot(before.columns.mean_se[a] ?? Infinity, after.columns.mean_se[b] ?? Infinity);
    const hasMean = meanA !== null && meanB !== null && Number.isFinite(meanError);
    rows.push({
      name: after.names[b],
      before: before.raw[a],
      after: after.raw[b],
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
  const sureness = (row) => 2 * row.differs + row.meanDiffers;
  return { rows: rows.sort((x, y) => sureness(y) - sureness(x) || Math.abs(y.z) - Math.abs(x.z)), z };
}

const NAMED = 5;
const signed = (text) => (text.startsWith("\u2212") ? text : `+${text}`);

/** The answer, in one line: which keys changed, by how much. */
function answer(rows, [was, is], digits) {
  const moved = rows.filter((row) => row.differs);
  const named = moved
    .slice(0, NAMED)
    .flatMap(({ name, gap, error }, at) => [
      at ? ", " : " ",
      nameNode(name),
      ` ${signed(value(100 * gap, digits))} \u00b1 ${value(100 * Z95 * error, digits)}`,
    ]);
  return h(
    "p",
    { class: "answer" },
    h("strong", {}, `${was} \u2192 ${is}:`),
    moved.length ? named : " no key surely has more or fewer people.",
    moved.length > NAMED && ` and ${count(moved.length - NAMED)} more`,
    moved.length > 0 && " (% points of people, 95 %).",
  );
}

async function compared({ older, newer, before, after }, onlyDiffering, width) {
  const { rows, z } = changes(before, after);
  if (!rows.length) {
    return h(
      "section",
      { class: "empty" },
      h("h2", {}, "No key in common"),
      h(
        "p",
        {},
        before.users && after.users
          ? "The two campaigns ask about different keys."
          : "One of the two has no report yet.",
      ),
    );
  }
  const titles = titlesOf(older, newer);
  const differing = rows.filter((row) => row.differs || row.meanDiffers);
  const shownRows = (onlyDiffering ? differing : rows).slice(0, SHOWN);
  const digits = digitsFor(100 * Math.min(...rows.map((row) => row.error)) * 2);
  const [low, high] = after.value_range;
  const meanDigits = digitsFor((high - low) / 50);
  const reach = Math.max(...rows.slice(0, SHOWN).map((row) => Math.abs(row.gap) + Z95 * row.error));
  const sameScale = before.value_range[0] === low && before.value_range[1] === high;
  const unit = after.metadata.unit;
  const verdict = (isSure, gap, more, less) =>
    isSure ? h("strong", {}, gap > 0 ? more : less) : h("span", { class: "muted" }, "not told apart");
  const body = shownRows.map((row) =>
    h(
      "tr",
      { class: row.differs || row.meanDiffers ? null : "noise" },
      h("th", { scope: "row" }, nameNode(row.name)),
      h("td", { class: "number" }, percent(row.before, digits)),
      h("td", { class: "number" }, percent(row.after, digits)),
      h(
        "td",
        { class: "interval" },
        intervalMark(row.gap - Z95 * row.error, row.gap, row.gap + Z95 * row.error, { from: -reach, to: reach }),
        h("span", {}, `${signed(value(100 * row.gap, digits))} \u00b1 ${value(100 * Z95 * row.error, digits)}`),
      ),
      h("td", {}, verdict(row.differs, row.gap, "more", "fewer")),
      sameScale &&
        h(
          "td",
          { class: "number nowrap" },
          row.meanGap === null
            ? "unknown"
            : `${signed(value(row.meanGap, meanDigits))} \u00b1 ${value(Z95 * row.meanError, meanDigits)}`,
        ),
      sameScale && h("td", {}, row.meanGap === null ? "" : verdict(row.meanDiffers, row.meanGap, "higher", "lower")),
    ),
  );
  const moved = differing.filter((row) => row.differs).slice(0, 15);
  const columns = [
    "Key",
    titles[0],
    titles[1],
    "Change in % points, 95 %",
    "People",
    ...(sameScale ? [`Change of the mean${unit ? `, ${shown(unit)}` : ""}, 95 %`, "Mean"] : []),
  ];
  return h(
    "div",
    {},
    answer(rows, titles, digits),
    moved.length ? await gapChart(moved, width) : null,
    h(
      "p",
      { class: "note", role: "status" },
      differing.length
        ? `${count(differing.length)} of ${count(rows.length)} keys differ.`
        : `None of ${count(rows.length)} keys can be said to differ.`,
      ` A change is what the newer campaign says less what the older one said. A key counts as different where ` +
        `that exceeds ${z.toFixed(2)} standard errors: so wide that, if nothing differed, not one of all these ` +
        "statements would be wrong 95 of 100 times. The noise of the two is independent, so variances add.",
    ),
    h(
      "div",
      { class: "scroll", role: "region", "aria-label": "Changes", tabindex: 0 },
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
              h(
                "th",
                { scope: "col", class: [1, 2, 5].includes(at) ? "number" : null, dataset: at ? {} : { key: "" } },
                title,
              ),
            ),
          ),
        ),
        h("tbody", {}, body),
      ),
    ),
    (onlyDiffering ? differing : rows).length > SHOWN &&
      h("p", { class: "muted" }, `The ${SHOWN} largest changes are shown.`),
  );
}

async function gapChart(rows, width) {
  const data = rows.map((row, at) => ({
    at,
    low: 100 * (row.gap - Z95 * row.error),
    high: 100 * (row.gap + Z95 * row.error),
    middle: 100 * row.gap,
    said: `${shown(row.name)}: ${value(100 * row.gap)} \u00b1 ${value(100 * Z95 * row.error)} % points`,
  }));
  const label = (at) => shortened(rows[at].name);
  const drawn = await figure((Plot) => ({
    width: width - 40,
    height: 58 + 22 * rows.length,
    marginTop: 6,
    marginBottom: 44,
    marginLeft: Math.min(175, width / 3),
    marginRight: 16,
    y: { type: "point", domain: data.map(({ at }) => at) },
    x: { label: "change in people, % points", nice: true },
    ariaLabel: "Changes with 95 % intervals; the table below has the numbers",
    marks: [
      Plot.gridX({ stroke: "var(--line)", strokeOpacity: 1 }),
      Plot.axisX({ color: "var(--muted)", labelOffset: 38 }),
      Plot.axisY({ tickFormat: label, tickSize: 0, label: null, color: "var(--ink)" }),
      Plot.ruleX([0], { stroke: "var(--muted)" }),
      ...intervalMarks(Plot, data, { y: "at", colour: "var(--orange)", bar: "var(--orange-bar)" }),
    ],
  }));
  return h("section", { class: "card" }, h("h2", {}, "What changed most"), drawn);
}
