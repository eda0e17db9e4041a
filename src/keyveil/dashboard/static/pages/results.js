import { file } from "../api.js";
import { figure, intervalMark, intervalMarks, spreadFigure } from "../charts.js";
import { download, h, nameNode, put, say, shortened, shown } from "../dom.js";
import { Found } from "../found.js";
import { count, digitsFor, fileName, percent, short, value } from "../format.js";
import { drawPairs } from "../pairs.js";
import { choice, field, noReportYet, tile, tiles } from "../parts.js";
import { drawSegments } from "../segments.js";

const DEFAULTS = { sort: "rank", dir: "up", size: "50", page: "1", post: "none", show: "all", top: "" };
const CHART_KEYS = 20;
const MULTIPLES = 12;
const USUAL_TOP = 10;
const MOST_NAMED = 12;
const POSTS = [
  ["none", "unbiased"],
  ["clip", "clipped to 0 to 100 %"],
  ["project", "made consistent"],
  ["shrink", "shrunk"],
  ["published", "as the paper does"],
];
const EXPORTS = [
  ["csv", "CSV"],
  ["json", "JSON"],
  ["parquet", "Parquet"],
  ["arrow", "Arrow"],
];

/** The width of one of two charts side by side, or of one below the other where there is no room. */
const halfOf = (width) => (width > 760 ? (width - 60) / 2 : width - 30);

/** What was found: the answer, then keys ranked with intervals, noise greyed. */
export async function draw({ content, params: { id }, about, query, remember, signal, redraw }) {
  const state = Object.fromEntries(
    Object.entries({ ...DEFAULTS, q: "" }).map(([name, usual]) => [name, query.get(name) ?? usual]),
  );
  const by = about.segments.includes(query.get("by")) ? query.get("by") : "";
  const isOfPairs = about.has_pairs && query.get("view") === "pairs";
  if (about.has_pairs) content.append(pairSwitch(isOfPairs, remember, redraw));
  if (isOfPairs) {
    await drawPairs({ content, id, query, remember, signal });
    return;
  }
  if (about.segments.length) content.append(segmentSwitch(about.segments, by, remember, redraw));
  if (by) {
    await drawSegments({ content, id, by, query, remember, signal });
    return;
  }
  const found = await Found.fetch(id, state.post, signal);
  if (!found.users) {
    content.append(noReportYet(id));
    return;
  }
  const view = new View(found, state, (changes) => remember(changes, DEFAULTS));
  content.append(answer(found, query, remember), summary(found), view.controls(redraw, id));
  const chart = h("div", { class: "top-chart" });
  let drawn = 0;
  const drawChart = async () => {
    const mine = ++drawn;
    const made = await topChart(found, view.charted(), content.clientWidth);
    if (mine === drawn) put(chart, made);
  };
  content.append(chart, view.table());
  const multiples = await distributions(found, content.clientWidth);
  if (multiples) content.append(multiples);
  addEventListener("theme", drawChart, { signal });
  view.onFit = drawChart;
  view.show();
  await drawChart();
}

/** Keys one by one, or what is held together. */
function pairSwitch(isOfPairs, remember, redraw) {
  const options = [
    ["", "keys"],
    ["pairs", "pairs of keys"],
  ];
  const which = choice("view", options, isOfPairs ? "pairs" : "");
  which.addEventListener("change", () => {
    remember({ view: which.value, by: "", key: "", pair: "", q: "", show: "" });
    redraw();
  });
  return h("div", { class: "controls" }, field("Look at", which));
}

/** Everybody together, or the segments of an attribute side by side. */
function segmentSwitch(attributes, by, remember, redraw) {
  const which = choice("by", [["", "everybody"], ...attributes.map((name) => [name, `by ${shown(name)}`])], by);
  which.addEventListener("change", () => {
    remember({ by: which.value, key: "" });
    redraw();
  });
  return h("div", { class: "controls" }, field("Segments", which));
}

function summary(found) {
  const { metadata } = found;
  const clear = found.order.findIndex((code) => found.isNoise(code));
  const known = clear < 0 ? found.n : clear;
  return tiles(
    tile("Reports", count(found.users), found.is_open ? "more may come" : "final"),
    tile("Keys that stand out", `${count(known)} of ${count(found.n)}`, "the rest may be held by nobody"),
    tile("Epsilon, exact", metadata.epsilon_exact.toPrecision(6), `promised: at most ${metadata.epsilon}`),
    tile("Mechanism", shown(metadata.mechanism), metadata.rounds > 1 ? `${metadata.rounds} rounds` : "one round"),
  );
}

/** The answer first: which keys surely are among the most used, which may be, and what would settle it. */
function answer(found, query, remember) {
  const most = Math.max(1, found.n - 1);
  const usual = Math.min(USUAL_TOP, most);
  const input = h("input", { type: "number", id: "k", min: 1, max: most, value: query.get("k") ?? usual });
  const said = h("div", { "aria-live": "polite" });
  const show = () => {
    const k = Math.min(most, Math.max(1, Math.round(Number(input.value)) || usual));
    remember({ k: String(k) }, { k: String(usual) });
    put(said, found.n > 1 ? sentences(found, k) : null);
  };
  input.addEventListener("input", show);
  show();
  return h(
    "section",
    { class: "card answer-strip" },
    h("h2", {}, h("label", { for: "k" }, "The most used keys, this many:"), " ", input),
    said,
    (found.metadata.notes ?? []).map((note) => h("p", { class: "muted" }, `Note: ${note}.`)),
  );
}

function sentences(found, k) {
  if (found.users === 1) return h("p", {}, "One report tells nothing about anybody; that is the point.");
  if (found.isNoise(found.order[0])) {
    return h("p", {}, "No key stands out from noise: more reports are needed before anything can be said.");
  }
  const { surely, possibly, more } = found.topOf(k);
  const settle = {
    said: `About ${count(Number((more ?? 0).toPrecision(2)))} more reports would settle it.`,
    alike: "At the border keys look alike: no sensible number of reports would settle it.",
  }[more === Infinity ? "alike" : "said"];
  return [
    h(
      "p",
      {},
      h("strong", {}, k === 1 ? "Surely the most used: " : `Surely among the ${count(k)} most used: `),
      named(found, surely),
    ),
    possibly.length
      ? h("p", {}, h("strong", {}, "Cannot be excluded: "), named(found, possibly), ` ${settle}`)
      : h("p", {}, "That settles it: no other key can be among them."),
    h("p", { class: "muted" }, "Judged over all pairs of keys at once: right 95 of 100 times."),
  ];
}

/** Keys by name, with links; the first of many. */
function named(found, codes) {
  if (!codes.length) return "none yet.";
  const links = codes
    .slice(0, MOST_NAMED)
    .flatMap((code, at) => [at ? ", " : "", h("a", { href: found.hrefOf(code) }, nameNode(found.names[code]))]);
  return [links, codes.length > MOST_NAMED ? ` and ${count(codes.length - MOST_NAMED)} more.` : "."];
}

async function topChart(found, codes, width) {
  if (!codes.length) return null;
  const said = (code, { low, middle, high }, unit) =>
    `${shown(found.names[code])}: ${short(middle)}${unit}, 95 %: ${short(low)} to ${short(high)}`;
  const rows = codes
    .map((code) => ({
      code,
      low: 100 * found.low[code],
      high: 100 * found.high[code],
      middle: 100 * found.columns.frequency[code],
      isNoise: found.isNoise(code),
    }))
    .map((row) => ({ ...row, said: said(row.code, row, " % of people") }));
  const label = (code) => shortened(found.names[code]);
  const longest = Math.max(...codes.map((code) => label(code).length));
  const common = {
    height: 58 + 22 * rows.length,
    marginTop: 6,
    marginBottom: 44,
    marginLeft: Math.min(175, 24 + 7.5 * longest),
    marginRight: 16,
  };
  const marks = (Plot, data) =>
    intervalMarks(Plot, data, {
      y: "code",
      colour: (row) => (row.isNoise ? "var(--faint)" : "var(--blue)"),
      bar: (row) => (row.isNoise ? "var(--faint)" : "var(--blue-bar)"),
    });
  const axis = (Plot, options) => [
    Plot.gridX({ stroke: "var(--line)", strokeOpacity: 1 }),
    Plot.axisX({ color: "var(--muted)", labelOffset: 38, ...options }),
    Plot.axisY({ tickFormat: label, tickSize: 0, label: null, color: "var(--ink)" }),
  ];
  const frequencies = await figure((Plot) => ({
    ...common,
    width: halfOf(width),
    y: { type: "point", domain: codes },
    x: { label: "% of people" },
    ariaLabel: "Frequencies of the most frequent keys with 95 % intervals; the table below has the numbers",
    marks: [...axis(Plot, {}), Plot.ruleX([0], { stroke: "var(--muted)" }), ...marks(Plot, rows)],
  }));
  const boxes = [h("div", {}, h("h3", {}, "How many hold it"), frequencies)];
  const means = rows
    .filter(({ code }) => found.columns.mean[code] !== null)
    .map(({ code }) => ({
      code,
      low: found.columns.mean_low[code],
      high: found.columns.mean_high[code],
      middle: found.shownOf("mean", code),
      isNoise: !found.hasMean(code),
    }))
    .map((row) => ({ ...row, said: said(row.code, row, ` ${found.metadata.unit ?? ""}`.trimEnd()) }));
  if (means.length) {
    const [low, high] = found.value_range;
    boxes.push(
      h(
        "div",
        {},
        h("h3", {}, "How much, among those who do"),
        await figure((Plot) => ({
          ...common,
          width: halfOf(width),
          y: { type: "point", domain: codes },
          x: { label: found.metadata.unit ?? "mean value", domain: [low, high] },
          ariaLabel: "Mean values of the same keys with 95 % intervals; the table below has the numbers",
          marks: [
            ...axis(Plot, {}),
            ...marks(
              Plot,
              means.filter(({ isNoise }) => !isNoise),
            ),
          ],
        })),
      ),
    );
  }
  return h(
    "section",
    { class: "card" },
    h(
      "h2",
      {},
      rows.length === 1 ? "The most frequent key of these" : `The ${rows.length} most frequent of these keys`,
    ),
    h("div", { class: "pair" }, boxes),
    h(
      "p",
      { class: "muted" },
      "Dots are estimates, bars their 95 % intervals. Grey: within noise.",
      means.length > 0 && " A key without a mean is one whose mean may lie anywhere in the range.",
    ),
  );
}

/** The table: which rows, in which order, which page of them. */
class View {
  constructor(found, state, remember) {
    this.found = found;
    this.state = state;
    this.remember = remember;
    /** @type {ReturnType<typeof placesByName> | undefined} */
    this.places = undefined;
    /** @type {string[] | undefined} */
    this.names = undefined;
    /** Called when other keys fit. */
    this.onFit = () => {};
    this.body = h("tbody");
    this.status = h("p", { class: "muted", role: "status" });
    this.pager = h("div", { class: "pager" });
    this.head = h("tr");
    this.columns = [
      ["rank", "Rank", "number"],
      ["key", "Key", ""],
      ["frequency", "People", "number"],
      ["low", "95 % interval", ""],
      ...(found.hasHostile ? [["liars", "1 % liars, % points", "number"]] : []),
      ["may", "May rank", "number"],
      ...(found.hasMeans
        ? [
            ["mean", found.metadata.unit ? `Mean, ${found.metadata.unit}` : "Mean", "number"],
            ["width", "95 % interval", ""],
            ...(found.hasHostile ? [["mean-liars", "1 % liars", "number"]] : []),
          ]
        : []),
      ...(found.hasMedians
        ? [
            ["median", found.metadata.unit ? `Median, ${found.metadata.unit}` : "Median", "number"],
            ["median-width", "95 % interval", ""],
          ]
        : []),
    ];
    const clear = [...found.order].filter((code) => !found.isNoise(code));
    const widths = (clear.length ? clear : [...found.order])
      .map((code) => found.high[code] - found.low[code])
      .filter(Number.isFinite);
    this.digits = digitsFor((100 * Math.min(...widths)) / 2);
    this.meanDigits = digitsFor((found.value_range[1] - found.value_range[0]) / 50);
    const ends = [...found.order.slice(0, 200)].map((code) => found.high[code]).filter(Number.isFinite);
    this.from = Math.min(0, ...[...found.order.slice(0, 200)].map((code) => found.low[code]).filter(Number.isFinite));
    this.to = Math.max(1e-9, ...ends);
  }

  controls(redraw, id) {
    const { state } = this;
    const search = h("input", { type: "search", id: "q", value: state.q, placeholder: "Key", autocomplete: "off" });
    search.addEventListener("input", () => this.change({ q: search.value, page: "1" }));
    const top = h("input", {
      type: "number",
      id: "top",
      min: 1,
      max: this.found.n,
      value: state.top,
      placeholder: "all",
    });
    top.addEventListener("input", () => this.change({ top: top.value, page: "1" }));
    const which = choice(
      "which",
      [
        ["all", "all keys"],
        ["clear", "keys that stand out"],
        ["noise", "keys within noise"],
      ],
      state.show,
    );
    which.addEventListener("change", () => this.change({ show: which.value, page: "1" }));
    const size = choice(
      "size",
      [
        ["20", "20"],
        ["50", "50"],
        ["100", "100"],
        ["500", "500"],
      ],
      state.size,
    );
    size.addEventListener("change", () => this.change({ size: size.value, page: "1" }));
    const post = choice("post", POSTS, state.post);
    post.addEventListener("change", () => {
      this.remember({ post: post.value });
      redraw();
    });
    const note = h("span", { class: "muted", role: "status" });
    const exports = EXPORTS.map(([format, title]) =>
      h(
        "button",
        {
          type: "button",
          dataset: { format },
          onclick: async (event) => {
            event.target.disabled = true;
            try {
              download(
                await file(`/v1/campaigns/${id}/release?format=${format}&post=${state.post}`),
                `${fileName(this.found.metadata.name)}.${format}`,
              );
              put(note, `${title} saved`);
            } catch (error) {
              put(note, `${error.title}. ${error.remedy}`);
            } finally {
              event.target.disabled = false;
            }
          },
        },
        title,
      ),
    );
    const link = h(
      "button",
      {
        type: "button",
        onclick: async () => {
          await navigator.clipboard?.writeText(location.href).then(
            () => put(note, "Address copied; it leads to this view"),
            () => put(note, "The address above leads to this view"),
          );
        },
      },
      "Copy link",
    );
    return h(
      "div",
      {},
      h(
        "div",
        { class: "controls" },
        field("Search", search),
        field("Top", top),
        field("Show", which),
        field("A page", size),
        field("Numbers", post),
      ),
      h(
        "div",
        { class: "controls exports" },
        h("span", { id: "export-label" }, "Export the release:"),
        h(
          "span",
          { role: "group", "aria-labelledby": "export-label", class: "buttons" },
          exports,
          link,
          h("button", { type: "button", onclick: () => print() }, "Print"),
        ),
        note,
      ),
    );
  }

  /** What the chart shows: the most frequent of the keys that fit; of all keys only those that say something. */
  charted() {
    const fitting = [...this.fitting()].slice(0, CHART_KEYS);
    const isNarrowed = this.state.q.trim() !== "" || this.state.show !== "all";
    return fitting.filter((code, at) => isNarrowed || at < 5 || !this.found.isNoise(code));
  }

  change(changes) {
    Object.assign(this.state, changes);
    const { q, top, show, size, page, sort, dir } = this.state;
    this.remember({ q, top, show, size, page, sort, dir });
    this.show();
    if ("q" in changes || "top" in changes || "show" in changes) this.onFit();
  }

  table() {
    return h(
      "section",
      {},
      h("h2", {}, "Every key"),
      this.status,
      h(
        "div",
        { class: "scroll", role: "region", "aria-label": "Every key", tabindex: 0 },
        h("table", { class: "keys" }, h("thead", {}, this.head), this.body),
      ),
      this.pager,
      h(
        "p",
        { class: "muted" },
        "People: share of all who were asked. Grey rows cannot be told from keys that nobody holds, looking " +
          "at all keys together. May rank: the ranks that all keys can have at once, 95 of 100 times.",
        this.found.hasHostile
          ? " 1 % liars: if one device in a hundred lied as well as it can, the estimate could move by so " +
              "much; see the health page."
          : "",
        this.found.hasMeans ? " A mean that is estimated beyond its interval stands at the interval's end." : "",
      ),
    );
  }

  show() {
    const started = performance.now();
    const codes = this.sorted(this.fitting());
    const { state } = this;
    const size = Number(state.size);
    const pages = Math.max(1, Math.ceil(codes.length / size));
    const page = Math.min(pages, Math.max(1, Number(state.page) || 1));
    this.drawHead();
    put(
      this.body,
      [...codes.slice((page - 1) * size, page * size)].map((code) => this.row(code)),
    );
    const first = (page - 1) * size;
    put(
      this.status,
      codes.length
        ? `${count(codes.length)} keys; ${count(first + 1)} to ${count(Math.min(codes.length, first + size))} shown.`
        : "No key fits.",
    );
    this.drawPager(page, pages);
    performance.measure("keys shown", { start: started });
  }

  fitting() {
    const { found, state } = this;
    const wanted = state.q.trim().toLowerCase();
    const top = Number(state.top) > 0 ? Number(state.top) : found.n;
    if (!wanted && state.show === "all") return found.order.slice(0, top);
    const names = (this.names ??= found.names.map((name) => name.toLowerCase()));
    const isFitting = (code) =>
      (!wanted || names[code].includes(wanted)) &&
      (state.show === "all" || found.isNoise(code) === (state.show === "noise"));
    return found.order.slice(0, top).filter(isFitting);
  }

  sorted(codes) {
    const { found, state } = this;
    const turn = state.dir === "down" ? -1 : 1;
    const { frequency, mean, median, key } = found.columns;
    const width = (name) => (code) => found.columns[`${name}_high`][code] - found.columns[`${name}_low`][code];
    if (state.sort === "key") {
      const places = (this.places ??= placesByName(key));
      return codes.sort((a, b) => turn * (places[a] - places[b]));
    }
    const of = {
      frequency: (code) => frequency[code],
      low: (code) => found.low[code],
      may: (code) => found.rank_best[code],
      mean: (code) => mean[code] ?? -Infinity,
      width: width("mean"),
      median: median && ((code) => median[code] ?? -Infinity),
      "median-width": median && width("median"),
      liars: (code) => found.columns.frequency_hostile[code],
      "mean-liars": (code) => found.columns.mean_hostile[code] ?? Infinity,
    }[state.sort];
    if (!of) return turn < 0 ? codes.reverse() : codes;
    const values = new Float64Array(found.n);
    for (const code of codes) values[code] = of(code);
    return codes.sort((a, b) => turn * (values[a] - values[b]) || found.rank[a] - found.rank[b]);
  }

  drawHead() {
    const { sort, dir } = this.state;
    if (this.head.dataset.sort === sort + dir) return;
    const focused = document.activeElement;
    const active = focused instanceof HTMLElement && this.head.contains(focused) ? focused.dataset.sort : null;
    this.head.dataset.sort = sort + dir;
    put(
      this.head,
      this.columns.map(([name, title, kind]) => {
        const is = name === sort;
        // Numbers are first wanted from the top; ranks and names from their beginning.
        const first = ["rank", "key", "may", "width", "median-width"].includes(name) ? "up" : "down";
        const next = is ? (dir === "up" ? "down" : "up") : first;
        return h(
          "th",
          {
            scope: "col",
            class: kind,
            dataset: name === "key" ? { key: "" } : {},
            "aria-sort": is ? (dir === "up" ? "ascending" : "descending") : null,
          },
          h(
            "button",
            {
              type: "button",
              class: "sort",
              dataset: { sort: name },
              onclick: () => {
                this.change({ sort: name, dir: next, page: "1" });
                say(`Sorted by ${title}`);
              },
            },
            title,
            h("span", { "aria-hidden": "true" }, is ? (dir === "up" ? " \u25b2" : " \u25bc") : ""),
          ),
        );
      }),
    );
    if (active) this.head.querySelector(`[data-sort="${active}"]`).focus();
  }

  row(code) {
    const { found } = this;
    const { columns } = found;
    const isNoise = found.isNoise(code);
    const bounds = `${percent(found.low[code], this.digits)} to ${percent(found.high[code], this.digits)}`;
    const [best, worst] = [found.rank_best[code], found.rank_worst[code]];
    const cells = [
      h("td", { class: "number" }, count(found.rank[code])),
      h(
        "th",
        { scope: "row" },
        h("a", { href: found.hrefOf(code) }, nameNode(found.names[code])),
        isNoise && h("span", { class: "unseen" }, " (within noise)"),
      ),
      h("td", { class: "number strong" }, percent(columns.frequency[code], this.digits)),
      h(
        "td",
        { class: "interval" },
        intervalMark(found.low[code], columns.frequency[code], found.high[code], this),
        h("span", {}, bounds),
      ),
      found.hasHostile &&
        h(
          "td",
          { class: "number muted" },
          this.moved("frequency", code, (x) => value(100 * x, this.digits)),
        ),
      h("td", { class: "number" }, best === worst ? count(best) : `${count(best)}\u2013${count(worst)}`),
    ];
    if (found.hasMeans) {
      cells.push(...this.bounded("mean", code));
      if (found.hasHostile) {
        cells.push(
          h(
            "td",
            { class: "number muted" },
            this.moved("mean", code, (x) => value(x, this.meanDigits)),
          ),
        );
      }
    }
    if (found.hasMedians) cells.push(...this.bounded("median", code));
    return h("tr", { class: isNoise ? "noise" : null, dataset: { code } }, cells);
  }

  /** How far liars could move a key's "frequency" or "mean", down and up; the two are rarely alike. */
  moved(name, code, write) {
    const { hostile } = this.found;
    const [down, up] = [hostile[`${name}_down`][code], hostile[`${name}_up`][code]];
    return down === null || up === null ? "any" : `${write(-down)} / +${write(up)}`;
  }

  /** The cells of a key's "mean" or "median" and its interval. */
  bounded(name, code) {
    const { found, meanDigits: digits } = this;
    const [low, high] = [`${name}_low`, `${name}_high`].map((each) => found.columns[each][code]);
    const [from, to] = found.value_range;
    if (!found.isTold(name, code)) {
      return [
        h("td", { class: "number strong" }, h("span", { class: "muted" }, value(found.shownOf(name, code), digits))),
        h("td", { class: "interval" }, h("span", { class: "muted" }, "anywhere in the range")),
      ];
    }
    return [
      h("td", { class: "number strong" }, value(found.shownOf(name, code), digits)),
      h(
        "td",
        { class: "interval" },
        intervalMark(low, found.shownOf(name, code), high, { from, to, className: "of-mean" }),
        h("span", {}, `${value(low, digits)} to ${value(high, digits)}`),
      ),
    ];
  }

  /** The field that leads to any page. */
  jump(page, pages) {
    const input = h("input", { type: "number", id: "page", min: 1, max: pages, value: page });
    input.addEventListener("change", () => {
      this.change({ page: String(Math.min(pages, Math.max(1, Math.round(Number(input.value)) || 1))) });
      this.pager.querySelector("#page").focus();
    });
    return input;
  }

  drawPager(page, pages) {
    const go = (to, title) =>
      h(
        "button",
        {
          type: "button",
          disabled: to < 1 || to > pages,
          onclick: () => {
            this.change({ page: String(to) });
            say(`Page ${to}`);
            this.pager.querySelector(`[data-go="${title}"]`)?.focus();
          },
          dataset: { go: title },
        },
        title,
      );
    put(
      this.pager,
      pages > 1 && [
        go(page - 1, "Previous"),
        h("label", { for: "page" }, "Page"),
        this.jump(page, pages),
        h("span", {}, `of ${count(pages)}`),
        go(page + 1, "Next"),
      ],
    );
  }
}

/** The place of every name among all of them, so that a sort by name compares numbers. */
function placesByName(names) {
  const order = Uint32Array.from(names.keys());
  const folded = names.map((name) => name.slice(0, 200).toLowerCase());
  const sorted = Array.from(order).sort((a, b) => (folded[a] < folded[b] ? -1 : folded[a] > folded[b] ? 1 : a - b));
  sorted.forEach((code, place) => (order[code] = place));
  return order;
}

/** Small multiples: how a key's values are spread, for the most frequent keys. */
async function distributions(found, room) {
  const codes = [...found.order].filter((code) => found.hasShares(code)).slice(0, MULTIPLES);
  if (!codes.length) return null;
  const reach = found.reachOf(codes);
  const figures = await Promise.all(
    codes.map(async (code) =>
      h(
        "figure",
        {},
        h("figcaption", {}, h("a", { href: found.hrefOf(code) }, nameNode(found.names[code]))),
        await spreadFigure(found, code, {
          width: room < 500 ? (room - 60) / 2 : 220,
          height: 120,
          marginLeft: 30,
          marginBottom: 24,
          marginTop: 8,
          marginRight: 10,
          reach,
        }),
        found.isShapeUnknown(code) && h("p", { class: "muted" }, "Shape unknown"),
      ),
    ),
  );
  return h(
    "section",
    {},
    h("h2", {}, "How values are spread"),
    h(
      "p",
      { class: "muted" },
      "Share of holders, in percent, by value. Smoothed from noised reports: read the shape, not a single bar.",
      codes.some((code) => found.hasBand(code)) &&
        " Lines are 95 % bands, each of which holds for all shares of a key together; where a band is very wide it " +
          "is cut at the top. Bands are not smoothed, so a bar may end outside of its own. " +
          "Bars at the ends stand for half as many values.",
      codes.some((code) => found.isShapeUnknown(code)) && " Shape unknown: it may be flat.",
    ),
    h("div", { class: "multiples" }, figures),
  );
}
