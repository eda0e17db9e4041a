import { spreadFigure } from "../charts.js";
import { h, nameNode } from "../dom.js";
import { Found } from "../found.js";
import { count, digitsFor, percent, value } from "../format.js";
import { smallLine } from "../lines.js";
import { noReportYet, tile, tiles } from "../parts.js";
import { Trend } from "../trends.js";

// A longer name is no part of an address.
const LONGEST_ASKED = 200;

/** One key: its numbers with their intervals, and how its values are spread. */
export async function draw({ content, params: { id, place }, query, signal, about }) {
  const post = query.get("post") ?? "none";
  const found = await Found.fetch(id, post, signal);
  const code = Number(place);
  const back = h(
    "p",
    { class: "crumbs no-print" },
    h("a", { href: `#/c/${id}/results${post === "none" ? "" : `?post=${encodeURIComponent(post)}`}` }, "All keys"),
  );
  if (!found.users) {
    content.append(noReportYet(id));
    return;
  }
  if (code >= found.n) {
    content.append(back, h("section", { class: "empty" }, h("h2", {}, "The campaign has no such key")));
    return;
  }
  content.append(
    back,
    h("h2", {}, nameNode(found.names[code]), found.isNoise(code) && h("span", { class: "badge" }, "within noise")),
    numbers(found, code),
  );
  const spread = await spreadCard(found, code, content.clientWidth);
  if (spread) content.append(spread);
  const past = await pastCard(about, found.columns.key[code], content.clientWidth, signal);
  if (past) content.append(past);
}

/** The key over the waves of the series that this campaign is a wave of. */
async function pastCard(about, key, width, signal) {
  if (!about.series || key.length > LONGEST_ASKED) return null;
  const trend = await Trend.fetch(about.series, { signal, key });
  if (!trend.found?.keys.length || trend.heard.length < 2) return null;
  const { since } = trend.found;
  const at = trend.at.get(about.wave);
  return h(
    "section",
    { class: "card past" },
    h("h2", {}, "Over the waves"),
    h("p", {}, `Since ${trend.called(since.start)}: ${since.is_sure[0] ? trend.didOf(0) : "no change that is sure"}.`),
    h("figure", { class: "spread" }, await smallLine(trend, 0, { width: width - 40, height: 200, ticks: 4 })),
    h(
      "p",
      { class: "muted" },
      "Line and band: what all waves together say of each, in % of people. Dots: each wave alone. ",
      at !== undefined &&
        `In this wave: ${trend.read("frequency", trend.columns.frequency_smoothed[0][at])} by all waves together. `,
      h("a", { href: `#/s/${about.series}?keys=${trend.places[0]}` }, "See it beside other keys"),
      ".",
    ),
  );
}

function numbers(found, code) {
  const { columns, value_range: range } = found;
  const [best, worst] = [found.rank_best[code], found.rank_worst[code]];
  const digits = digitsFor(50 * (found.high[code] - found.low[code]));
  const valueDigits = digitsFor((range[1] - range[0]) / 50);
  const unit = found.metadata.unit ? `, ${found.metadata.unit}` : "";
  const within = (low, high) => `95 %: ${value(low, valueDigits)} to ${value(high, valueDigits)}`;
  const bounded = (name, title) =>
    tile(
      title + unit,
      value(found.shownOf(name, code), valueDigits),
      found.isTold(name, code) ? within(columns[`${name}_low`][code], columns[`${name}_high`][code]) : "95 %: anywhere",
    );
  const deviation = () => {
    const [low, middle, high] = ["variance_low", "variance", "variance_high"].map((name) => columns[name][code]);
    // No values of the range are spread wider than half of them at either end.
    const isTold = middle !== null && (low > 0 || high < ((range[1] - range[0]) / 2) ** 2);
    return tile(
      `Standard deviation${unit}`,
      isTold ? value(Math.sqrt(middle), valueDigits) : "?",
      isTold ? within(Math.sqrt(low), Math.sqrt(high)) : "95 %: anything",
    );
  };
  return tiles(
    tile(
      "Rank",
      count(found.rank[code]),
      `may be ${best === worst ? count(best) : `${count(best)} to ${count(worst)}`}`,
    ),
    tile(
      "People",
      percent(columns.frequency[code], digits),
      `95 %: ${percent(found.low[code], digits)} to ${percent(found.high[code], digits)}`,
    ),
    found.hasMeans && bounded("mean", "Mean"),
    found.hasMedians && bounded("median", "Median"),
    columns.variance && deviation(),
  );
}

/** How the key's values are spread, where the campaign tells that of any key. */
async function spreadCard(found, code, width) {
  const drawn = Object.keys(found.distribution).length;
  if (!drawn || !found.metadata.bins) return null;
  const unknown = found.isShapeUnknown(code) && h("p", { class: "note" }, "Shape unknown: it may be flat.");
  const title = h("h2", {}, "How its values are spread");
  if (!found.hasShares(code)) {
    const why =
      code in found.distribution
        ? "Nothing is known of its values."
        : `It is drawn for the ${count(drawn)} most frequent keys only.`;
    return h("section", { class: "card" }, title, unknown, h("p", { class: "muted" }, why));
  }
  const hasBand = found.hasBand(code);
  const hasMedian = found.hasMedians;
  const figure = await spreadFigure(found, code, {
    width: width - 40,
    height: 300,
    marginLeft: 40,
    marginTop: 10,
    marginBottom: 44,
    reach: found.reachOf([code]),
    median: hasMedian,
    label: found.metadata.unit ?? "value",
  });
  return h(
    "section",
    { class: "card" },
    title,
    unknown,
    h("figure", { class: "spread" }, figure),
    h(
      "p",
      { class: "muted" },
      "Bars: the share of holders, in percent, by value; smoothed from noised reports. ",
      hasBand &&
        "Lines: their 95 % band, which holds for all shares together; where it is very wide it is cut at the top. " +
          "It is not smoothed, so a bar may end outside of it. Bars at the ends stand for half as many values. ",
      hasMedian && "Dot: the median in its 95 % interval.",
    ),
    sharesTable(found, code, hasBand),
  );
}

/** The figure's numbers, for those who read them. */
function sharesTable(found, code, hasBand) {
  const digits = digitsFor((found.value_range[1] - found.value_range[0]) / 50);
  return h(
    "details",
    {},
    h("summary", {}, "The shares in numbers"),
    h(
      "table",
      {},
      h(
        "thead",
        {},
        h(
          "tr",
          {},
          h("th", { scope: "col" }, "Value about"),
          h("th", { scope: "col", class: "number" }, "Share"),
          hasBand && h("th", { scope: "col", class: "number" }, "95 % band"),
        ),
      ),
      h(
        "tbody",
        {},
        found
          .sharesOf(code)
          .map(({ mark, share, low, high }) =>
            h(
              "tr",
              {},
              h("th", { scope: "row" }, value(mark, digits)),
              h("td", { class: "number" }, percent(share, 1)),
              hasBand && h("td", { class: "number" }, `${percent(low, 1)} to ${percent(high, 1)}`),
            ),
          ),
      ),
    ),
  );
}
