import { file } from "../api.js";
import { figure, intervalMark, spreadFigure } from "../charts.js";
import { download, h, nameNode, put, say, shown } from "../dom.js";
import { Found } from "../found.js";
import { count, digitsFor, percent, value } from "../format.js";
import { choice, field, noReportYet, tile, tiles } from "../parts.js";

const DEFAULTS = { sort: "rank", dir: "up", size: "50", page: "1", post: "none", show: "all", top: "" };
const CHART_KEYS = 20;
const MULTIPLES = 12;
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

/** What was found: keys ranked with intervals, ties said, noise greyed. */
export async function draw({ content, params: { id }, query, remember, signal, redraw }) {
  const state = Object.fromEntries(
    Object.entries({ ...DEFAULTS, q: "" }).map(([name, usual]) => [name, query.get(name) ?? usual]),
  );
  const found = await Found.fetch(id, state.post, signal);
  if (!found.users) {
    content.append(noReportYet(id));
    return;
  }
  const view = new View(found, state, (changes) => remember(changes, DEFAULTS));
  content.append(summary(found), sentence(found), view.controls(redraw, id));
  content.append(await topChart(found, state, content.clientWidth));
  content.append(view.table());
  const multiples = await distributions(found, content.clientWidth);
  if (multiples) content.append(multiples);
  addEventListener(
    "theme",
    async () => content.querySelector(".top-chart")?.replaceWith(await topChart(found, state, content.clientWidth)),
    { signal },
  );
  view.show();
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

/** Honest ties, in words. */
function sentence(found) {
  const runs = found.ties();
  const said = runs.slice(0, 4).map(([first, last]) => `Keys ${first} to ${last} cannot be told apart.`);
  if (runs.length > 4) said.push(`So it goes on; the column "may rank" says it of every key.`);
  if (runs.length) {
    said.push("That is judged over all pairs of keys at once, which takes more than two intervals that do not meet.");
  }
  if (!runs.length && found.n > 1) {
    said.push(
      found.isNoise(found.order[0])
        ? "No key stands out from noise: more reports are needed before anything can be said."
        : "The keys that stand out are all told apart from each other.",
    );
  }
  if (found.users === 1) said.unshift("One report tells nothing about anybody; that is the point.");
  for (const note of found.metadata.notes ?? []) said.push(`Note: ${note}.`);
  return h("p", { class: "note ties" }, said.join(" "));
}

async function topChart(found, state, width) {
  const codes = [...found.order.slice(0, Math.min(CHART_KEYS, Number(state.top) || CHART_KEYS))].filter(
    (code, at) => at < 5 || !found.isNoise(code),
  );
  const rows = codes.map((code) => ({
    code,
    low: 100 * found.low[code],
    high: 100 * found.high[code],
    middle: 100 * found.columns.frequency[code],
    isNoise: found.isNoise(code),
  }));
  const label = (code) => {
    const name = shown(found.names[code]);
    return name.length > 22 ? `${[...name].slice(0, 20).join("")}\u2026` : name;
  };
  const longest = Math.max(...codes.map((code) => label(code).length));
  const common = {
    height: 58 + 22 * rows.length,
    marginTop: 6,
    marginBottom: 44,
    marginLeft: Math.min(175, 24 + 7.5 * longest),
    marginRight: 16,
  };
  const paint = (row) => (row.isNoise ? "var(--faint)" : "var(--blue)");
  const axis = (Plot, options) => [
    Plot.gridX({ stroke: "var(--line)", strokeOpacity: 1 }),
    Plot.axisX({ color: "var(--muted)", labelOffset: 38, ...options }),
    Plot.axisY({ tickFormat: label, tickSize: 0, label: null, color: "var(--ink)" }),
  ];
  const intervals = (Plot, data) =>
    Plot.ruleY(data, {
      y: "code",
      x1: "low",
      x2: "high",
      stroke: paint,
      strokeWidth: 5,
      strokeOpacity: 0.35,
      strokeLinecap: "round",
    });
  const frequencies = await figure((Plot) => ({
    ...common,
    width: halfOf(width),
    y: { type: "point", domain: codes },
    x: { label: "% of people" },
    ariaLabel: "Frequencies of the most frequent keys with 95 % intervals; the table below has the numbers",
    marks: [
      ...axis(Plot, {}),
      Plot.ruleX([0], { stroke: "var(--muted)" }),
      intervals(Plot, rows),
      Plot.dot(rows, { y: "code", x: "middle", fill: paint, r: 4 }),
    ],
  }));
  const boxes = [h("div", {}, h("h3", {}, "How many hold it"), frequencies)];
  const means = rows
    .filter(({ code }) => found.columns.mean[code] !== null)
    .map(({ code }) => ({
      code,
      low: found.columns.mean_low[code],
      high: found.columns.mean_high[code],
      middle: found.columns.mean[code],
      isNoise: !found.hasMean(code),
    }));
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
            intervals(
              Plot,
              means.filter(({ isNoise }) => !isNoise),
            ),
            Plot.dot(
              means.filter(({ middle }) => middle >= low && middle <= high),
              { y: "code", x: "middle", fill: paint, r: 4 },
            ),
          ],
        })),
      ),
    );
  }
  return h(
    "section",
    { class: "card top-chart" },
    h("h2", {}, `The ${rows.length === 1 ? "most frequent key" : `${rows.length} most frequent keys`}`),
    h("div", { class: "pair" }, boxes),
    h(
      "p",
      { class: "muted" },
      "Dots are estimates, bars their 95 % intervals. Grey: within noise.",
      means.length > 0 &&
        " A mean without a bar may lie anywhere in the range; one without a dot was estimated outside of it.",
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
    this.body = h("tbody");
    this.status = h("p", { class: "muted", role: "status" });
    this.pager = h("div", { class: "pager" });
    this.head = h("tr");
    this.columns = [
      ["rank", "Rank", "number"],
      ["key", "Key", ""],
      ["frequency", "People", "number"],
      ["low", "95 % interval", ""],
      ...(found.hasHostile ? [["liars", "1 % liars", "number"]] : []),
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
                `release.${format}`,
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

  change(changes) {
    Object.assign(this.state, changes);
    const { q, top, show, size, page, sort, dir } = this.state;
    this.remember({ q, top, show, size, page, sort, dir });
    this.show();
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
        this.found.hasMeans
          ? " A mean outside its range is the unbiased estimate of one inside: read its interval."
          : "",
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
          { scope: "col", class: kind, "aria-sort": is ? (dir === "up" ? "ascending" : "descending") : null },
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
        h("td", { class: "number muted" }, `\u00b1 ${percent(columns.frequency_hostile[code], this.digits)}`),
      h("td", { class: "number" }, best === worst ? count(best) : `${count(best)}\u2013${count(worst)}`),
    ];
    if (found.hasMeans) {
      cells.push(...this.bounded("mean", code));
      if (found.hasHostile) {
        cells.push(
          h(
            "td",
            { class: "number muted" },
            columns.mean_hostile[code] === null
              ? "any"
              : `\u00b1 ${value(columns.mean_hostile[code], this.meanDigits)}`,
          ),
        );
      }
    }
    if (found.hasMedians) cells.push(...this.bounded("median", code));
    return h("tr", { class: isNoise ? "noise" : null, dataset: { code } }, cells);
  }

  /** The cells of a key's "mean" or "median" and its interval. */
  bounded(name, code) {
    const { found, meanDigits: digits } = this;
    const [low, middle, high] = [`${name}_low`, name, `${name}_high`].map((each) => found.columns[each][code]);
    const [from, to] = found.value_range;
    if (!found.isTold(name, code)) {
      return [
        h("td", { class: "number strong" }, h("span", { class: "muted" }, value(found.shownOf(name, code), digits))),
        h("td", { class: "interval" }, h("span", { class: "muted" }, "anywhere in the range")),
      ];
    }
    return [
      h("td", { class: "number strong" }, value(middle, digits)),
      h(
        "td",
        { class: "interval" },
        intervalMark(low, middle, high, { from, to, className: "of-mean" }),
        h("span", {}, `${value(low, digits)} to ${value(high, digits)}`),
      ),
    ];
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
        h("span", {}, `Page ${count(page)} of ${count(pages)}`),
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
