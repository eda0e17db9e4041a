/** Lines of a series over its waves: levels with bands, waves alone as dots, steps, notes, and what is missing. */

import { figure } from "./charts.js";
import { h, shown } from "./dom.js";
import { dayOf } from "./format.js";

/** At most so many lines are told apart by colour and mark. */
export const PAINTS = ["var(--blue)", "var(--orange)", "var(--green)", "var(--pink)", "var(--amber)", "var(--muted)"];
export const SYMBOLS = ["circle", "square", "triangle", "diamond", "star", "wye"];
const LONGEST_NOTE = 30;
const WIDE = 600;
// Beyond so much of what the lines need, an interval is cut: it would rule the scale.
const ROOM = 1.6;

/** The colour and mark of a line. */
export function swatch(at) {
  const marks = {
    circle: h("circle", { cx: 9, cy: 6, r: 4 }),
    square: h("rect", { x: 5.5, y: 2.5, width: 7, height: 7 }),
    triangle: h("polygon", { points: "9,1 14,10.5 4,10.5" }),
    diamond: h("polygon", { points: "9,0 13,6 9,12 5,6" }),
    star: h("polygon", { points: "9,0 10.5,4.5 15,4.5 11.5,7.5 12.8,12 9,9.3 5.2,12 6.5,7.5 3,4.5 7.5,4.5" }),
    wye: h("polygon", { points: "7.5,12 7.5,7 3.5,4 5.5,1.5 9,4.5 12.5,1.5 14.5,4 10.5,7 10.5,12" }),
  };
  return h(
    "svg",
    { class: "swatch", viewBox: "0 0 18 12", width: 18, height: 12, "aria-hidden": "true", fill: PAINTS[at] },
    marks[SYMBOLS[at]],
  );
}

/** The reach of an axis: bands and dots, and of thin intervals what fits beside them. */
function reachOf(rows, isShare) {
  const ends = rows.flatMap(({ low, high, raw }) => [low, high, raw]).filter((end) => end !== null);
  const [least, most] = [Math.min(...ends), Math.max(...ends)];
  const wide = rows.flatMap(({ rawLow, rawHigh }) => [rawLow, rawHigh]).filter((end) => end !== null);
  const spare = ((ROOM - 1) * (most - least)) / 2 || 1;
  const low = Math.max(least - spare, Math.min(least, ...wide));
  const high = Math.min(most + spare, Math.max(most, ...wide));
  return isShare ? [Math.min(0, low), high] : [low, high];
}

/** Half a wave before the first and after the last. */
function spanOf(trend) {
  const first = trend.waves[0].begins;
  const { begins, ends } = trend.waves[trend.waves.length - 1];
  const half = (ends - begins) / 2;
  return [new Date(1000 * (first - half)), new Date(1000 * (begins + half))];
}

/** Stretches of waves that nobody answered, by why. */
function gapsOf(trend) {
  const gaps = [];
  for (const wave of trend.waves.filter(({ reports }) => !reports)) {
    const half = (wave.ends - wave.begins) / 2;
    const [from, to] = [wave.begins - half, wave.begins + half];
    const why = wave.campaign ? "no answer" : "missed";
    const last = gaps.at(-1);
    if (last?.why === why && last.next === wave.number) Object.assign(last, { to, next: wave.number + 1 });
    else gaps.push({ from, to, why, next: wave.number + 1 });
  }
  return gaps.map(({ from, to, why }) => ({
    from: new Date(1000 * from),
    at: new Date(500 * (from + to)),
    to: new Date(1000 * to),
    why,
  }));
}

/** The moment between a wave and the next, where a step after it is marked. */
function between(trend, number) {
  const { begins, ends } = trend.waves[trend.at.get(number)];
  return new Date(500 * (begins + ends));
}

/** Bands, lines and dots of some keys; `paint` says how each is coloured. */
function marksOf(Plot, rows, { paint, symbol, isSmall }) {
  const sizes = new Map();
  for (const { stretch } of rows) sizes.set(stretch, (sizes.get(stretch) ?? 0) + 1);
  const lonely = rows.filter(({ stretch }) => sizes.get(stretch) === 1);
  const some = rows.filter(({ raw }) => raw !== null);
  // What reaches beyond the axes is not drawn.
  const where = { x: "when", clip: true };
  return [
    Plot.areaY(rows, { ...where, y1: "low", y2: "high", z: "stretch", fill: paint, fillOpacity: 0.16 }),
    Plot.ruleX(lonely, { ...where, y1: "low", y2: "high", stroke: paint, strokeWidth: 6, strokeOpacity: 0.2 }),
    Plot.ruleX(isSmall ? [] : some, { ...where, y1: "rawLow", y2: "rawHigh", stroke: paint, strokeOpacity: 0.4 }),
    Plot.line(rows, { ...where, y: "middle", z: "stretch", stroke: paint, strokeWidth: isSmall ? 1.6 : 2.2 }),
    Plot.dot(lonely, { ...where, y: "middle", r: 2, fill: paint }),
    Plot.dot(some, {
      ...where,
      y: "raw",
      symbol,
      r: isSmall ? 1.5 : 3,
      fill: (row) => (row.wave.state === "open" ? "var(--paper)" : paint(row)),
      stroke: paint,
      strokeWidth: 1,
      fillOpacity: 0.75,
    }),
  ];
}

/** The large chart of chosen keys. */
export function linesFigure(trend, keys, { name, width, height }) {
  const rows = keys.flatMap((key) => trend.lineOf(name, key));
  const place = new Map(keys.map((key, at) => [key, at]));
  const paint = ({ key }) => PAINTS[place.get(key)];
  const span = spanOf(trend);
  const reach = reachOf(rows, name === "frequency");
  const isWide = width > WIDE;
  const every = Math.max(1, Math.ceil(trend.waves.length / (width / 70)));
  const ticks = trend.waves.filter((_, at) => at % every === 0);
  const labels = new Map(ticks.map((wave) => [1000 * wave.begins, `W${wave.number}\n${dayOf(wave.begins)}`]));
  const notes = trend.annotations
    .map((note, at) => ({ at: new Date(1000 * note.at), text: labelOf(note, at, isWide), row: at }))
    .filter(({ at }) => at >= span[0] && at <= span[1]);
  const steps =
    name === "frequency"
      ? keys.flatMap((key) =>
          trend
            .stepsOf(key)
            .map((step) => ({
              key,
              from: between(trend, step.earliest),
              to: between(trend, step.latest),
              at: between(trend, step.after),
              isUp: step.size > 0,
            })),
        )
      : [];
  const open = trend.waves.filter(({ state, reports }) => state === "open" && reports);
  const foot = { frameAnchor: "bottom", dy: -4, fill: "var(--muted)", fontSize: 11 };
  return figure((Plot) => ({
    width,
    height,
    marginLeft: 46,
    marginRight: 26,
    marginTop: notes.length ? 16 + (isWide ? 13 * Math.min(3, notes.length) : 13) : 18,
    marginBottom: 46,
    ariaLabel: `${keys.map((key) => shown(trend.names[key])).join(", ")} over the waves; numbers in the tables below`,
    x: { type: "utc", domain: span, label: null },
    y: { domain: reach, label: null },
    symbol: { type: "identity" },
    marks: [
      Plot.gridY({ stroke: "var(--line)", strokeOpacity: 1 }),
      Plot.rect(gapsOf(trend), {
        x1: "from",
        x2: "to",
        y1: reach[0],
        y2: reach[1],
        fill: "var(--line)",
        fillOpacity: 0.55,
      }),
      Plot.text(isWide ? gapsOf(trend) : [], { ...foot, x: "at", text: "why" }),
      Plot.rect(
        steps.filter(({ from, to }) => to > from),
        { x1: "from", x2: "to", y1: reach[0], y2: reach[1], fill: paint, fillOpacity: 0.09, className: "step-range" },
      ),
      Plot.ruleX(steps, { x: "at", stroke: paint, strokeWidth: 2, strokeDasharray: "2 3", className: "step" }),
      Plot.ruleX(notes, {
        x: "at",
        stroke: "var(--ink)",
        strokeOpacity: 0.6,
        strokeDasharray: "6 3",
        className: "note",
      }),
      ...marksOf(Plot, rows, { paint, symbol: ({ key }) => SYMBOLS[place.get(key)], isSmall: false }),
      Plot.dot(steps, {
        x: "at",
        y: reach[0],
        dy: -7,
        r: 5,
        symbol: "triangle",
        rotate: ({ isUp }) => (isUp ? 0 : 180),
        fill: paint,
        className: "step-mark",
      }),
      ...notes.map((note) =>
        Plot.text([note], {
          x: "at",
          text: "text",
          frameAnchor: "top",
          dy: isWide ? -18 - 13 * (note.row % 3) : -12,
          dx: 3,
          textAnchor: Number(note.at) > (Number(span[0]) + 2 * Number(span[1])) / 3 ? "end" : "start",
          fill: "var(--ink)",
          fontSize: 12,
        }),
      ),
      Plot.text(open, {
        ...foot,
        x: (wave) => new Date(1000 * wave.begins),
        text: () => "so far",
        textAnchor: "end",
        dx: 12,
      }),
      Plot.axisX(
        ticks.map(({ begins }) => new Date(1000 * begins)),
        { tickFormat: (at) => labels.get(Number(at)), color: "var(--muted)", tickSize: 4 },
      ),
      Plot.axisY({
        ticks: height / 45,
        tickSize: 3,
        color: "var(--muted)",
        tickFormat: (tick) => (name === "frequency" ? `${tick} %` : String(tick)),
      }),
    ],
  }));
}

function labelOf({ text }, at, isWide) {
  if (!isWide) return String(at + 1);
  const letters = [...shown(text)];
  return letters.length > LONGEST_NOTE ? `${letters.slice(0, LONGEST_NOTE - 1).join("")}\u2026` : letters.join("");
}

/** One key's line, small: of the multiples, and on a key's own page. */
export function smallLine(trend, key, { name = "frequency", width, height = 110, ticks = 2 }) {
  const rows = trend.lineOf(name, key);
  const paint = () => (name === "mean" ? "var(--green)" : "var(--blue)");
  const reach = rows.length ? reachOf(rows, name === "frequency") : [0, 1];
  const shownWaves = [trend.waves[0], trend.waves[trend.waves.length - 1]];
  return figure((Plot) => ({
    width,
    height,
    marginLeft: 38,
    marginRight: 12,
    marginTop: 8,
    marginBottom: 20,
    ariaLabel: `${shown(trend.names[key])} over the waves`,
    x: { type: "utc", domain: spanOf(trend), label: null },
    y: { domain: reach, label: null },
    symbol: { type: "identity" },
    marks: [
      Plot.gridY({ stroke: "var(--line)", strokeOpacity: 1, ticks }),
      Plot.rect(gapsOf(trend), {
        x1: "from",
        x2: "to",
        y1: reach[0],
        y2: reach[1],
        fill: "var(--line)",
        fillOpacity: 0.55,
      }),
      ...marksOf(Plot, rows, { paint, symbol: "circle", isSmall: true }),
      ...(name === "frequency"
        ? [
            Plot.ruleX(trend.stepsOf(key), {
              x: ({ after }) => between(trend, after),
              stroke: "var(--orange)",
              strokeWidth: 1.5,
              strokeDasharray: "2 3",
              className: "step",
            }),
          ]
        : []),
      Plot.axisX(
        shownWaves.map(({ begins }) => new Date(1000 * begins)),
        {
          tickFormat: (at) => `W${shownWaves.find(({ begins }) => 1000 * begins === Number(at))?.number}`,
          color: "var(--muted)",
          tickSize: 3,
          fontSize: 11,
        },
      ),
      Plot.axisY({
        ticks,
        tickSize: 3,
        color: "var(--muted)",
        fontSize: 11,
        tickFormat: (tick) => (name === "frequency" ? `${tick} %` : String(tick)),
      }),
    ],
  }));
}

const SPARK = { width: 130, height: 30, pad: 3 };

/** A line of a key within a row of text: no axis, no band; a gap where nobody answered. */
export function sparkline(trend, key) {
  const { width, height, pad } = SPARK;
  const rows = trend.lineOf("frequency", key);
  const ends = rows.map(({ middle }) => middle);
  const [low, high] = [Math.min(...ends), Math.max(...ends)];
  const [first, last] = spanOf(trend).map(Number);
  const x = ({ when }) => pad + ((Number(when) - first) / (last - first)) * (width - 2 * pad);
  const y = ({ middle }) => height - pad - ((middle - low) / (high - low || 1)) * (height - 2 * pad);
  const stretches = [...new Set(rows.map(({ stretch }) => stretch))].map((wanted) =>
    rows.filter(({ stretch }) => stretch === wanted),
  );
  const end = rows.at(-1);
  return h(
    "svg",
    { class: "spark", viewBox: `0 0 ${width} ${height}`, width, height, "aria-hidden": "true" },
    stretches.map((some) =>
      h("polyline", { points: some.map((row) => `${x(row).toFixed(1)},${y(row).toFixed(1)}`).join(" ") }),
    ),
    end && h("circle", { cx: x(end).toFixed(1), cy: y(end).toFixed(1), r: 2.5 }),
  );
}
