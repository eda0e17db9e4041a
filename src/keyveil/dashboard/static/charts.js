/** Charts by others' hands, in this page's colours: uPlot comes with the page, Plot when the first is drawn. */

import { noAnswer } from "./api.js";
import { h, shown } from "./dom.js";

let plotting;

/** Observable Plot, with d3 below it. */
export function plotLibrary() {
  // @ts-expect-error d3 and Plot are scripts of others, served beside this page; they have no types here.
  plotting ??= import("./vendor/d3.min.js")
    // @ts-expect-error as above
    .then(() => import("./vendor/plot.min.js"))
    .then(() => globalThis.Plot)
    .catch(() => {
      plotting = undefined;
      throw noAnswer();
    });
  return plotting;
}

/** A figure of Plot's. `className` is fixed because the page's policy names the style's hash. */
export async function figure(options) {
  const Plot = await plotLibrary();
  const drawn = Plot.plot({ className: "plot", style: { fontSize: "13px" }, ...options(Plot) });
  // One picture with one name; Plot names its parts too, which a group without a role may not have.
  drawn.setAttribute("role", "img");
  for (const part of drawn.querySelectorAll("g[aria-label]")) {
    part.dataset.part = part.getAttribute("aria-label");
    part.removeAttribute("aria-label");
  }
  return drawn;
}

// A bar's end, so that its length is read where bars are pale.
const CAP = {
  draw(/** @type {CanvasPath} */ path) {
    path.moveTo(0, -4.5);
    path.lineTo(0, 4.5);
  },
};

/** @typedef {string | ((row: any) => string)} Paint */

/**
 * Intervals with caps and their estimates, one below the other: rows have `low`, `middle` and `high` at `y`, and say
 * their numbers in words to whoever points at them (`said`).
 *
 * @param {any} Plot
 * @param {any[]} rows
 * @param {{ y: string, colour: Paint, bar: Paint, dy?: number, symbol?: string, thin?: boolean }} how `dy` is how far
 *   they stand from the middle of their row
 */
export function intervalMarks(Plot, rows, { y, colour: fill, bar, dy = 0, symbol = "circle", thin = false }) {
  const cap = { y, dy, symbol: CAP, stroke: bar, strokeWidth: 2 };
  return [
    Plot.ruleY(rows, { y, dy, x1: "low", x2: "high", stroke: bar, strokeWidth: thin ? 2 : 4, title: "said" }),
    Plot.dot(rows, { ...cap, x: "low" }),
    Plot.dot(rows, { ...cap, x: "high" }),
    Plot.dot(
      rows.filter(({ middle }) => middle !== null),
      { y, dy, x: "middle", symbol, fill, r: thin ? 4 : 5, stroke: "var(--paper)", strokeWidth: 1.5, title: "said" },
    ),
  ];
}

/**
 * The figure of one key's shares in their band; with a `median`, that stands below in its interval.
 *
 * @param {import("./found.js").Found} found
 * @param {number} code
 * @param {{ width: number, height: number, reach: number, median?: boolean, label?: string, [other: string]: any }} how
 */
export function spreadFigure(found, code, { width, height, reach, median = false, label, ...margins }) {
  const top = 100 * reach;
  const rows = found
    .sharesOf(code)
    .map((row) => ({
      ...row,
      middle: (row.from + row.to) / 2,
      share: Math.min(top, 100 * (row.share ?? 0)),
      low: row.low === null ? null : 100 * row.low,
      high: row.high === null ? null : Math.min(top, 100 * row.high),
    }));
  const bands = rows.filter(({ low, high }) => low !== null && high !== null && low < top);
  const below = median ? -0.07 * top : 0;
  const [low, high] = ["median_low", "median_high"].map((name) => found.columns[name]?.[code]);
  const middle = median ? found.shownOf("median", code) : null;
  const paint = found.isNoise(code) ? "var(--faint)" : "var(--green-bar)";
  return figure((Plot) => ({
    width,
    height,
    ...margins,
    ariaLabel:
      `Distribution of the values of ${shown(found.names[code])}` +
      `${bands.length ? ", with a 95 % band" : ""}${found.isShapeUnknown(code) ? "; its shape is unknown" : ""}`,
    x: { label: null, domain: found.value_range },
    y: { label: null, domain: [1.5 * below, top] },
    marks: [
      Plot.axisX({ label, ticks: Math.max(3, width / 90), tickSize: 3, color: "var(--muted)", labelOffset: 36 }),
      Plot.axisY({ ticks: height / 40, tickSize: 3, color: "var(--muted)", filter: (tick) => tick >= 0 }),
      Plot.rectY(rows, { x1: "from", x2: "to", y1: 0, y2: "share", fill: paint, inset: 0.5 }),
      Plot.ruleX(bands, {
        x: "middle",
        y1: "low",
        y2: "high",
        className: "band",
        stroke: "var(--ink)",
        strokeOpacity: 0.7,
        strokeWidth: width < 400 ? 1.5 : 2.5,
      }),
      Plot.ruleY([0], { stroke: "var(--muted)" }),
      ...(median
        ? [
            Plot.ruleY([below], {
              x1: low,
              x2: high,
              className: "median",
              stroke: "var(--orange-bar)",
              strokeWidth: 4,
            }),
            Plot.dot(middle === null ? [] : [middle], { x: (x) => x, y: below, fill: "var(--orange)", r: 4.5 }),
          ]
        : []),
    ],
  }));
}

// Seconds that a live chart spans at least, so that its first moments are no full width.
const SHORTEST = 20;

/** Times of an axis: with seconds over minutes, with a date over days. */
function clock(ticks) {
  const span = ticks.at(-1) - ticks[0];
  /** @type {Intl.DateTimeFormatOptions} */
  const parts =
    span > 2 * 86400
      ? { day: "numeric", month: "short" }
      : { hour: "2-digit", minute: "2-digit", ...(span < 600 ? { second: "2-digit" } : {}) };
  const format = new Intl.DateTimeFormat("en-GB", parts);
  return (seconds) => format.format(new Date(1000 * seconds));
}

export const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();

const HEIGHT = 190;

/**
 * A canvas of uPlot's that follows its box and the theme; `box.show(data)` draws.
 *
 * A canvas says nothing to a screen reader; the numbers stand beside it as text.
 */
function canvas(label, signal, options) {
  const box = h("div", { class: "live", role: "img", "aria-label": label });
  const width = () => Math.max(240, box.clientWidth);
  let chart;
  let latest;
  const make = () => {
    chart?.destroy();
    const axis = {
      stroke: colour("muted"),
      grid: { stroke: colour("line"), width: 1 },
      ticks: { stroke: colour("line"), width: 1 },
      font: "12px system-ui, sans-serif",
    };
    chart = new globalThis.uPlot(
      { width: width(), height: HEIGHT, cursor: { y: false }, legend: { show: false }, ...options(axis) },
      latest,
      box,
    );
  };
  const resize = new ResizeObserver(() => chart?.setSize({ width: width(), height: HEIGHT }));
  resize.observe(box);
  addEventListener("theme", () => chart && make(), { signal });
  signal.addEventListener("abort", () => {
    resize.disconnect();
    chart?.destroy();
  });
  box.show = (data) => {
    latest = data;
    if (chart) chart.setData(data);
    else if (box.clientWidth) make();
  };
  return box;
}

const wanted = () => ({ label: "wanted", stroke: colour("orange"), dash: [6, 4], width: 1.5, points: { show: false } });

/** Reports over time: `draw(times, totals, goal)`. */
export function reportsOverTime(signal) {
  const whole = (n) => (Number.isInteger(n) ? n.toLocaleString("en") : "");
  const box = canvas("Reports counted over time", signal, (axis) => ({
    scales: {
      x: { time: true, range: (_, first, last) => [first, Math.max(last, first + SHORTEST)] },
      y: { range: (_, low, high) => [0, high > 0 ? high * 1.08 : 1] },
    },
    axes: [
      { ...axis, space: 80, values: (_, ticks) => ticks.map(clock(ticks)) },
      { ...axis, size: 62, values: (_, ticks) => ticks.map(whole) },
    ],
    series: [{}, { stroke: colour("blue"), width: 2, fill: `${colour("blue")}22`, points: { show: false } }, wanted()],
  }));
  box.draw = (times, totals, goal) => box.show([times, totals, times.map(() => goal)]);
  return box;
}

/** The error bar against reports, past and to come: `draw(halfWidth, reports, goal, wanted)`; a dot is now. */
export function errorByReports(signal) {
  let tallest = 1;
  const box = canvas(
    "Half of a rare key's 95 % interval against the number of reports, in % of people",
    signal,
    (axis) => ({
      scales: { x: { time: false }, y: { range: () => [0, tallest] } },
      axes: [
        { ...axis, space: 70, values: (_, ticks) => ticks.map(many) },
        { ...axis, size: 62, values: (_, ticks) => ticks.map((n) => `\u00b1${n} %`) },
      ],
      pxAlign: 0,
      series: [
        {},
        { stroke: colour("blue"), width: 2, points: { show: false } },
        wanted(),
        { stroke: colour("ink"), width: 0, points: { show: true, size: 11, fill: colour("ink") } },
      ],
    }),
  );
  box.draw = (halfWidth, reports, goal, want) => {
    const last = Math.max(1000, 2 * reports, goal === null ? 0 : Math.min(1.25 * goal, 50 * Math.max(reports, 1000)));
    const places = Array.from({ length: CURVE }, (_, at) => (last * (at + 1)) / CURVE);
    if (reports) {
      places.splice(
        places.findIndex((place) => place >= reports),
        0,
        reports,
      );
    }
    tallest = 100 * Math.min(4 * halfWidth(reports || last / 8), halfWidth(last / CURVE));
    box.show([
      places,
      places.map((n) => 100 * halfWidth(n)),
      places.map(() => want && 100 * want),
      places.map((n) => (n === reports ? 100 * halfWidth(n) : null)),
    ]);
  };
  return box;
}

const CURVE = 120;
const many = (n) => new Intl.NumberFormat("en", { notation: "compact" }).format(n);

/** An interval inside a table's row: the bar from low to high, the estimate as a line. */
export function intervalMark(low, middle, high, { from, to, className = "" }) {
  const width = 160;
  const x = (at) => Math.min(width, Math.max(0, ((at - from) / (to - from || 1)) * width));
  const svg = h("svg", {
    class: `mark ${className}`,
    viewBox: `0 0 ${width} 16`,
    width,
    height: 16,
    "aria-hidden": "true",
    preserveAspectRatio: "none",
  });
  if ([low, middle, high].every(Number.isFinite)) {
    if (from < 0) svg.append(h("line", { class: "zero", x1: x(0), x2: x(0), y1: 0, y2: 16 }));
    svg.append(h("rect", { class: "reach", x: x(low), width: Math.max(1, x(high) - x(low)), y: 5, height: 6, rx: 3 }));
    svg.append(h("rect", { class: "point", x: x(middle) - 1.25, width: 2.5, y: 2, height: 12, rx: 1 }));
  }
  return svg;
}
