/** Charts by others' hands, in this page's colours: uPlot comes with the page, Plot when the first is drawn. */

import { noAnswer } from "./api.js";
import { h } from "./dom.js";

let plotting;

/** Observable Plot, with d3 below it. */
export function plotLibrary() {
  plotting ??= import("./vendor/d3.min.js").then(() => import("./vendor/plot.min.js")).then(() => globalThis.Plot).catch(() => {
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
  for (const part of drawn.querySelectorAll("g[aria-label]")) part.removeAttribute("aria-label");
  return drawn;
}

// Seconds that a live chart spans at least, so that its first moments are no full width.
const SHORTEST = 20;

/** Times of an axis: with seconds over minutes, with a date over days. */
function clock(ticks) {
  const span = ticks.at(-1) - ticks[0];
  const parts = span > 2 * 86400 ? { day: "numeric", month: "short" } : { hour: "2-digit", minute: "2-digit", ...(span < 600 ? { second: "2-digit" } : {}) };
  const format = new Intl.DateTimeFormat("en-GB", parts);
  return (seconds) => format.format(new Date(1000 * seconds));
}

export const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();

/**
 * A live line: `{label, unit}` over time. Returns an element with `show(times, values, target)`.
 *
 * A canvas says nothing to a screen reader; the numbers stand beside it as text.
 */
export function liveLine({ label, format, signal, fromZero = true }) {
  const box = h("div", { class: "live", role: "img", "aria-label": label });
  let chart;
  let last = [[], [], null];
  const make = () => {
    chart?.destroy();
    const axis = { stroke: colour("muted"), grid: { stroke: colour("line"), width: 1 }, ticks: { stroke: colour("line"), width: 1 }, font: "12px system-ui, sans-serif" };
    const series = [{}, { label, stroke: colour("blue"), width: 2, fill: `${colour("blue")}22`, points: { show: false } }, { label: "wanted", stroke: colour("orange"), dash: [6, 4], width: 1.5, points: { show: false } }];
    const scales = { x: { time: true, range: (_, first, last) => [first, Math.max(last, first + SHORTEST)] }, y: { range: (_, low, high) => [fromZero ? 0 : low, high > 0 ? high * 1.08 : 1] } };
    const axes = [{ ...axis, space: 80, values: (_, ticks) => ticks.map(clock(ticks)) }, { ...axis, size: 62, values: (_, ticks) => ticks.map(format) }];
    const options = { width: Math.max(240, box.clientWidth), height: 190, cursor: { y: false }, legend: { show: false }, scales, axes, series };
    chart = new globalThis.uPlot(options, data(), box);
  };
  const data = () => [last[0], last[1], last[2] === null ? last[0].map(() => null) : last[0].map(() => last[2])];
  const resize = new ResizeObserver(() => chart?.setSize({ width: Math.max(240, box.clientWidth), height: 190 }));
  resize.observe(box);
  addEventListener("theme", make, { signal });
  signal.addEventListener("abort", () => { resize.disconnect(); chart?.destroy(); });
  box.show = (times, values, target = null) => {
    last = [times, values, target];
    if (chart) chart.setData(data());
    else if (box.clientWidth) make();
  };
  return box;
}

/** An interval inside a table's row: the bar from low to high, the estimate as a line. */
export function intervalMark(low, middle, high, { from, to, className = "" }) {
  const width = 160;
  const x = (at) => Math.min(width, Math.max(0, ((at - from) / (to - from || 1)) * width));
  const svg = h("svg", { class: `mark ${className}`, viewBox: `0 0 ${width} 16`, width, height: 16, "aria-hidden": "true", preserveAspectRatio: "none" });
  if ([low, middle, high].every(Number.isFinite)) {
    if (from < 0) svg.append(h("line", { class: "zero", x1: x(0), x2: x(0), y1: 0, y2: 16 }));
    svg.append(h("rect", { class: "reach", x: x(low), width: Math.max(1, x(high) - x(low)), y: 5, height: 6, rx: 3 }));
    svg.append(h("rect", { class: "point", x: x(middle) - 1.25, width: 2.5, y: 2, height: 12, rx: 1 }));
  }
  return svg;
}
