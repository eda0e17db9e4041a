/** The segments of an attribute side by side: what differs in words, a chart, every key, one key in every segment. */

import { get } from "./api.js";
import { figure, intervalMark, intervalMarks } from "./charts.js";
import { h, nameNode, put, say, shortened, shown } from "./dom.js";
import { count, digitsFor, percent, value } from "./format.js";
import { PAINTS, swatch, SYMBOLS } from "./lines.js";
import { ifNoReports, noReportYet, searched } from "./parts.js";

const CHART_KEYS = 8;
const MOST_SAID = 10;
// Shades of a cell, from few people to the most of any.
const SHADES = 5;

/** What one attribute's segments say, from the columns that the collector sent (Python: `dashboard.breakdowns`). */
class Apart {
  constructor(sent, { segments, different }) {
    this.names = sent.names;
    this.value_range = sent.value_range;
    this.unit = sent.metadata.unit ?? "";
    this.notes = sent.metadata.notes;
    this.z_all = sent.z_all;
    this.is_open = sent.is_open;
    /** Whether answers hide labels, so that sizes of segments are estimates. */
    this.isPrivate = sent.metadata.told === "private";
    this.segments = segments;
    /** The segments that somebody reported from, by place. */
    this.heard = [...segments.keys()].filter((place) => segments[place].columns.frequency);
    this.different = different;
    this.surely = new Map(different.map((one) => [one.key * segments.length + one.segment, one]));
    // Only the order of rows, which says how many hold a key where most reports are.
    const weight = (code) =>
      this.heard.reduce((sum, place) => sum + segments[place].users * this.read(place, "frequency", code), 0);
    const weights = this.names.map((_, code) => weight(code));
    this.order = [...weights.keys()].sort((a, b) => weights[b] - weights[a] || a - b);
    const clear = this.heard.flatMap((place) =>
      segments[place].columns.frequency.filter((_, code) => !this.isNoise(place, code)),
    );
    this.most = Math.max(0, ...clear.map((share) => share ?? 0));
    const widths = this.heard.map((place) => segments[place].columns.frequency_se.find((error) => error !== null));
    this.digits = digitsFor(200 * Math.min(...widths));
  }

  read(place, name, code) {
    return this.segments[place].columns[name][code];
  }

  /** How large a segment is, in words. */
  sizeOf(place) {
    const { users, share } = this.segments[place];
    if (!this.isPrivate) return `${count(users)} reports`;
    return `${percent(share[0], 1)} of people, ${percent(share[1], 1)} to ${percent(share[2], 1)}`;
  }

  /** Whether a cell may be one that nobody is in, looking at all cells of the attribute together. */
  isNoise(place, code) {
    const error = this.read(place, "frequency_se", code);
    return error === null || this.read(place, "frequency", code) - this.z_all * error <= 0;
  }

  /** The difference of a segment from everybody, where it is sure. */
  differenceOf(place, code) {
    return this.surely.get(code * this.segments.length + place);
  }

  interval(place, code) {
    const [low, high] = ["frequency_low", "frequency_high"].map((name) => this.read(place, name, code));
    return `${percent(low, this.digits)} to ${percent(high, this.digits)}`;
  }

  /** A cell in words. */
  said(place, code) {
    const surely = this.differenceOf(place, code);
    return [
      `${shown(this.names[code])}, ${shown(this.segments[place].value)}: ` +
        `${percent(this.read(place, "frequency", code), this.digits)} of people, 95 %: ${this.interval(place, code)}`,
      surely && this.fromAll(surely),
      this.isNoise(place, code) && "within noise",
    ]
      .filter(Boolean)
      .join("; ");
  }

  /** A sure difference in words, with the interval that holds for all cells at once. */
  fromAll({ size, low, high }) {
    const points = (share) => value(100 * Math.abs(share), this.digits);
    const [least, most] = size > 0 ? [low, high] : [high, low];
    const which = size > 0 ? "more" : "fewer";
    return `${points(size)} % points ${which} than of everybody (${points(least)} to ${points(most)})`;
  }
}

/** Draw the segments of one attribute below a page's switch. */
export async function drawSegments({ content, id, by, query, remember, signal }) {
  const path = `/v1/campaigns/${id}/breakdowns?by=${encodeURIComponent(by)}`;
  const sent = await get(path, { signal }).catch(ifNoReports);
  if (!sent) {
    content.append(noReportYet(id));
    return;
  }
  const apart = new Apart({ ...sent, z_all: sent.z_all[by] }, sent.attributes[0]);
  const chart = h("div");
  const detail = h("div", { class: "one-key" });
  const drawChart = async () => put(chart, await dots(apart, content.clientWidth));
  const look = (code) => {
    remember({ key: code });
    put(detail, oneKey(apart, code));
    detail.querySelector("h2").focus();
    say(`${shown(apart.names[code])} in every segment`);
  };
  content.append(about(apart, by), differences(apart, look), chart, detail, cells(apart, { query, remember, look }));
  const asked = Number(query.get("key") ?? "none");
  if (asked in apart.names) put(detail, oneKey(apart, asked));
  performance.mark("segments shown");
  await drawChart();
  addEventListener("theme", drawChart, { signal });
}

/** Whether labels are private, and what follows from it. */
function about(apart, by) {
  if (!apart.isPrivate) {
    return h(
      "p",
      { class: "note" },
      h("strong", {}, "These labels are not private."),
      ` Every report says its ${shown(by)} in the clear, and whoever reads the report knows it. `,
      "What a person holds is noised as ever.",
    );
  }
  const parts = apart.segments.length;
  return h(
    "section",
    { class: "note" },
    h(
      "p",
      {},
      h("strong", {}, "These labels are private."),
      ` Every answer hides its ${shown(by)} together with what a person holds, so the sizes of segments are ` +
        `estimates. Numbers of everybody are sums over ${count(parts)} segments, about ` +
        `${value(Math.sqrt(parts), 1)} times as noisy as without segments.`,
    ),
    h(
      "ul",
      { class: "sizes" },
      apart.segments.map((segment, place) =>
        h("li", {}, nameNode(segment.value), `: ${apart.sizeOf(place)}`, segment.users ? "." : "; too few to tell."),
      ),
    ),
  );
}

/** Where it differs, in words, with how often such a list is wrong. */
function differences(apart, look) {
  const listed = apart.different.slice(0, MOST_SAID);
  const rest = apart.different.length - listed.length;
  const all = `all ${count(apart.names.length)} keys and ${count(apart.heard.length)} segments`;
  return h(
    "section",
    { class: "card answer-strip" },
    h("h2", {}, "Where segments differ most"),
    listed.length
      ? h(
          "ul",
          { class: "answers" },
          listed.map((one) =>
            h(
              "li",
              {},
              keyButton(apart, one.key, look),
              ": ",
              h("strong", {}, percent(apart.read(one.segment, "frequency", one.key), apart.digits)),
              " of ",
              nameNode(apart.segments[one.segment].value),
              `, ${apart.fromAll(one)}.`,
            ),
          ),
        )
      : h("p", {}, "No key surely differs between segments: more reports are needed, or there is no difference."),
    rest > 0 && h("p", {}, `And ${count(rest)} more, marked below.`),
    h(
      "p",
      { class: "muted" },
      `Judged over ${all} at once: of 100 tables without any difference at most 5 would list one. `,
      apart.is_open ? "More reports may come." : "",
    ),
  );
}

const keyButton = (apart, code, look) =>
  h("button", { type: "button", class: "key-button", onclick: () => look(code) }, nameNode(apart.names[code]));

/** A row a key, in it a mark a segment: of the segments with most reports, as many as there are colours. */
async function dots(apart, width) {
  const places = [...apart.heard]
    .sort((a, b) => apart.segments[b].users - apart.segments[a].users || a - b)
    .slice(0, PAINTS.length);
  const codes = apart.order.slice(0, CHART_KEYS);
  const label = (code) => shortened(apart.names[code]);
  const longest = Math.max(...codes.map((code) => label(code).length));
  const step = 11;
  const paint = (at) => (row) => (row.isNoise ? "var(--faint)" : PAINTS[at]);
  const drawn = await figure((Plot) => ({
    width: width - 40,
    height: 58 + codes.length * (step * places.length + 12),
    marginTop: 6,
    marginBottom: 44,
    marginLeft: Math.min(175, 24 + 7.5 * longest),
    marginRight: 16,
    y: { type: "band", domain: codes },
    x: { label: "% of people" },
    symbol: { type: "identity" },
    ariaLabel: "Frequencies of the most frequent keys in every segment with 95 % intervals; the table has the numbers",
    marks: [
      Plot.gridX({ stroke: "var(--line)", strokeOpacity: 1 }),
      Plot.axisX({ color: "var(--muted)", labelOffset: 38 }),
      Plot.axisY({ tickFormat: label, tickSize: 0, label: null, color: "var(--ink)" }),
      Plot.ruleX([0], { stroke: "var(--muted)" }),
      ...places.flatMap((place, at) => {
        const rows = codes
          .filter((code) => apart.read(place, "frequency_se", code) !== null)
          .map((code) => ({
            code,
            low: 100 * apart.read(place, "frequency_low", code),
            middle: 100 * apart.read(place, "frequency", code),
            high: 100 * apart.read(place, "frequency_high", code),
            isNoise: apart.isNoise(place, code),
            said: apart.said(place, code),
          }));
        const dy = step * (at - (places.length - 1) / 2);
        return intervalMarks(Plot, rows, {
          y: "code",
          colour: paint(at),
          bar: paint(at),
          dy,
          symbol: SYMBOLS[at],
          thin: true,
        });
      }),
    ],
  }));
  return h(
    "section",
    { class: "card" },
    h("h2", {}, codes.length === 1 ? "The key" : `The ${count(codes.length)} most frequent keys`),
    drawn,
    h(
      "ul",
      { class: "legend" },
      places.map((place, at) =>
        h("li", {}, swatch(at), nameNode(apart.segments[place].value), `, ${apart.sizeOf(place)}`),
      ),
    ),
    h(
      "p",
      { class: "muted" },
      "Marks are estimates, bars their 95 % intervals. Grey: within noise. ",
      places.length < apart.heard.length && `The ${count(places.length)} largest segments; all are below.`,
    ),
  );
}

/** Every key in every segment, shaded by how many hold it. */
function cells(apart, { query, remember, look }) {
  const differing = new Set(apart.different.map(({ key }) => key));
  return searched(
    {
      title: "Every key in every segment",
      what: "key",
      options: [
        ["all", "all keys"],
        ["differ", "keys that differ"],
      ],
      order: apart.order,
      fits: (code, wanted, which) =>
        (!wanted || apart.names[code].toLowerCase().includes(wanted)) && (which === "all" || differing.has(code)),
      line: (code) => cellsOf(apart, code, look),
      look: "keys heat",
      heads: [
        h("th", { scope: "col", dataset: { key: "" } }, "Key"),
        ...apart.heard.map((place) =>
          h("th", { scope: "col", class: "number" }, nameNode(shortened(apart.segments[place].value))),
        ),
      ],
      note: h(
        "p",
        { class: "muted" },
        "% of a segment's people, the darker the more; grey: may be a key that nobody of the segment " +
          "holds. \u25b2 and \u25bc: surely more or fewer than of everybody. A key leads to its intervals. ",
        apart.notes.map((note) => `Note: ${note}. `),
      ),
    },
    { query, remember },
  );
}

function cellsOf(apart, code, look) {
  return h(
    "tr",
    { dataset: { code } },
    h("th", { scope: "row" }, keyButton(apart, code, look)),
    apart.heard.map((place) => {
      const share = apart.read(place, "frequency", code);
      const isNoise = apart.isNoise(place, code);
      const surely = apart.differenceOf(place, code);
      const shade = Math.max(1, Math.ceil((SHADES * share) / apart.most));
      return h(
        "td",
        { class: isNoise ? "number noise" : `number shade-${shade}`, title: apart.said(place, code) },
        surely && [
          h("span", { "aria-hidden": "true" }, surely.size > 0 ? "\u25b2 " : "\u25bc "),
          h("span", { class: "unseen" }, surely.size > 0 ? "surely more: " : "surely fewer: "),
        ],
        share === null ? "?" : value(100 * share, apart.digits),
      );
    }),
  );
}

/** One key in every segment, with its intervals. */
function oneKey(apart, code) {
  const [from, to] = apart.value_range;
  const digits = digitsFor((to - from) / 50);
  const column = (name) => apart.heard.map((place) => apart.read(place, name, code)).filter((end) => end !== null);
  const reach = { from: Math.min(0, ...column("frequency_low")), to: Math.max(1e-9, ...column("frequency_high")) };
  const hasMeans = column("mean").length > 0;
  const mean = (place) => {
    const [low, middle, high] = ["mean_low", "mean", "mean_high"].map((name) => apart.read(place, name, code));
    if (middle === null || (low <= from && high >= to)) return "anywhere in the range";
    return `${value(Math.min(Math.max(middle, low), high), digits)} (${value(low, digits)} to ${value(high, digits)})`;
  };
  const size = apart.isPrivate ? "Reports, about" : "Reports";
  const titles = ["Segment", size, "People", "95 % interval", "Against everybody, all cells at once"];
  return h(
    "section",
    { class: "card" },
    h("h2", { tabindex: -1 }, nameNode(apart.names[code]), " in every segment"),
    h(
      "div",
      { class: "scroll", role: "region", "aria-label": "One key in every segment", tabindex: 0 },
      h(
        "table",
        { class: "keys" },
        h(
          "thead",
          {},
          h(
            "tr",
            {},
            [...titles, ...(hasMeans ? [`Mean${apart.unit && `, ${shown(apart.unit)}`}, 95 %`] : [])].map((title, at) =>
              h("th", { scope: "col", class: at === 1 || at === 2 ? "number" : null }, title),
            ),
          ),
        ),
        h(
          "tbody",
          {},
          apart.heard.map((place) => {
            const [low, share, high] = ["frequency_low", "frequency", "frequency_high"].map((name) =>
              apart.read(place, name, code),
            );
            const surely = apart.differenceOf(place, code);
            return h(
              "tr",
              { class: apart.isNoise(place, code) ? "noise" : null },
              h("th", { scope: "row" }, nameNode(apart.segments[place].value)),
              h("td", { class: "number" }, count(apart.segments[place].users)),
              h("td", { class: "number strong" }, percent(share, apart.digits)),
              h(
                "td",
                { class: "interval" },
                intervalMark(low, share, high, reach),
                h("span", {}, apart.interval(place, code)),
              ),
              h("td", {}, surely ? apart.fromAll(surely) : h("span", { class: "muted" }, "no sure difference")),
              hasMeans && h("td", {}, mean(place)),
            );
          }),
        ),
      ),
    ),
  );
}
