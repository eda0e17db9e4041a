import { drop, post, Trouble } from "../api.js";
import { intervalMark } from "../charts.js";
import { download, h, nameNode, put, say, shown } from "../dom.js";
import { count, dateOf, day, percent, fileName } from "../format.js";
import { linesFigure, PAINTS, smallLine, swatch } from "../lines.js";
import { paint } from "../painting.js";
import { choice, field } from "../parts.js";
import { Trend } from "../trends.js";

const CHOSEN = 4;
const MULTIPLES = 10;
const ROWS = 50;
const LINE = 340;
// As a mark takes them.
const ENDS = ["_low", "", "_high"];
const DEFAULTS = { what: "frequency", top: "", q: "", keys: "", since: "", wave: "" };

/** A series over time: what changed, in words, as lines, and in numbers. */
export async function draw({ content, params: { series }, query, remember, signal, redraw, trouble }) {
  const asked = { since: query.get("since") ?? "" };
  let trend;
  try {
    trend = await Trend.fetch(series, { signal, since: asked.since || 0 });
  } catch (error) {
    if (!(error instanceof Trouble)) throw error;
    if (error.status === 403) {
      trouble(error);
      content.append(blindNotes(series));
      return;
    }
    if (!asked.since || error.code !== "bad-request") throw error;
    // A link may name a wave that has no more report than others: the page begins with the first.
    trend = await Trend.fetch(series, { signal });
  }
  if (!trend.found) {
    content.append(
      h(
        "section",
        { class: "empty" },
        h("h2", {}, "No report yet"),
        h("p", {}, "There is nothing to show before devices have answered a wave. ", wavesLink(series)),
      ),
      notes(trend, redraw, signal),
    );
    return;
  }
  const view = new View(trend, query, (changes) => remember(changes, DEFAULTS), content.clientWidth, signal);
  content.append(
    answer(trend),
    view.controls(redraw),
    view.chart,
    notes(trend, redraw, signal),
    view.changes(),
    await multiples(trend, view, content.clientWidth),
    view.table,
  );
  await view.show();
  addEventListener("theme", () => view.show(), { signal });
}

const wavesLink = (series) => h("a", { href: `#/s/${series}/waves` }, "See the waves.");

/** What changed, in words; first on the page. */
function answer(trend) {
  const { head, named, rest } = trend.answer;
  const body = !head
    ? h("p", { class: "answer" }, rest)
    : named.length
      ? [
          h("p", { class: "answer" }, h("strong", {}, `${head}:`)),
          h(
            "ul",
            { class: "answers" },
            named.map(([name, did]) => h("li", {}, nameNode(name), ` ${did}.`)),
            h("li", {}, rest),
          ),
        ]
      : h("p", { class: "answer" }, h("strong", {}, `${head}: `), rest);
  const { last } = trend;
  return h(
    "section",
    { class: "card answer-strip" },
    h("h2", {}, "What changed"),
    body,
    head && h("p", { class: "muted" }, trend.alarms),
    h(
      "p",
      { class: "muted" },
      `The last wave with reports is ${trend.about(last)}. `,
      trend.found.metadata.smoothing.includes("season") && "A season of seven waves was found, and is in the lines. ",
    ),
  );
}

/** Everything that follows from which keys, which wave and which number are looked at. */
class View {
  constructor(trend, query, remember, width, signal) {
    this.trend = trend;
    this.remember = remember;
    this.width = width;
    this.signal = signal;
    this.what = trend.hasMeans && query.get("what") === "mean" ? "mean" : "frequency";
    const named = (query.get("keys") ?? "").split(".").filter(Boolean).map(Number);
    const given = named.map((place) => trend.places.indexOf(place)).filter((key) => key >= 0);
    this.keys = (given.length ? given : this.usual()).slice(0, PAINTS.length);
    const wave = trend.at.get(Number(query.get("wave")));
    this.at = wave ?? trend.at.get(trend.last.number);
    this.q = query.get("q") ?? "";
    this.top = query.get("top") ?? "";
    this.figure = h("div", { class: "line-figure" });
    this.legend = h("ul", { class: "legend" });
    this.reading = h("div", { class: "reading" });
    this.slider = h("input", {
      type: "range",
      id: "wave",
      min: 0,
      max: trend.waves.length - 1,
      value: this.at,
      "aria-label": "Wave",
    });
    this.slider.addEventListener("input", () => this.look(Number(this.slider.value)));
    this.chart = this.card();
    this.body = h("tbody");
    this.status = h("p", { class: "muted", role: "status" });
    this.table = h("section", { class: "card" });
  }

  /** The keys that changed, then the most used. */
  usual() {
    return [...new Set([...this.trend.sure.slice(0, CHOSEN), ...this.trend.top])].slice(0, CHOSEN);
  }

  card() {
    const note = h("span", { class: "muted", role: "status" });
    const save = async (make, name) => {
      download(await make(), name);
      put(note, `${name.split(".").at(-1)?.toUpperCase()} saved`);
    };
    return h(
      "section",
      { class: "card line-chart" },
      h("h2", {}, "Over the waves"),
      this.figure,
      this.legend,
      h(
        "p",
        { class: "wave-slider" },
        h("label", { for: "wave" }, "Wave (arrow keys, or hover the chart)"),
        this.slider,
      ),
      this.reading,
      h(
        "p",
        { class: "muted" },
        "Dots: each wave alone, with its 95 % interval. Lines: what all waves together say of each, with its 95 % " +
          "band; a gap where nobody answered. A hollow dot is of a wave that is open. Triangles and dotted rules: a " +
          "dated step, shaded where it may lie.",
      ),
      h(
        "p",
        { class: "buttons no-print" },
        h(
          "button",
          { type: "button", id: "save-csv", onclick: () => save(async () => this.csv(), this.fileName("csv")) },
          "CSV of this view",
        ),
        h(
          "button",
          { type: "button", id: "save-png", onclick: () => save(() => this.png(), this.fileName("png")) },
          "PNG of the chart",
        ),
        note,
      ),
    );
  }

  controls(redraw) {
    const { trend } = this;
    const since = choice(
      "since",
      trend.heard
        .filter(({ number }) => number < trend.last.number)
        .map(({ number }) => [String(number), trend.called(number)])
        .reverse(),
      String(trend.found.since?.start ?? ""),
    );
    since.addEventListener("change", () => {
      this.remember({ since: since.value });
      redraw();
    });
    const what = choice(
      "what",
      [
        ["frequency", "how many people"],
        ["mean", this.meanTitle],
      ],
      this.what,
    );
    what.addEventListener("change", () => {
      this.what = what.value;
      this.remember({ what: what.value });
      this.show();
    });
    const search = h("input", { type: "search", id: "q", value: this.q, placeholder: "Key", autocomplete: "off" });
    search.addEventListener("input", () => {
      this.q = search.value;
      this.remember({ q: this.q });
      this.rows();
    });
    const top = h("input", {
      type: "number",
      id: "top",
      min: 1,
      max: trend.keys.length,
      value: this.top,
      placeholder: "all",
    });
    top.addEventListener("input", () => {
      this.top = top.value;
      this.remember({ top: this.top });
      this.rows();
    });
    return h(
      "div",
      { class: "controls" },
      trend.found.since && field("Compare with", since),
      trend.hasMeans && field("Show", what),
      field("Search", search),
      field("Top", top),
    );
  }

  get meanTitle() {
    return this.trend.unit ? `how much: ${shown(this.trend.unit)}` : "how much";
  }

  async show() {
    const { trend, what: name } = this;
    const width = Math.max(260, this.width - 42);
    const drawn = await linesFigure(trend, this.keys, { name, width, height: width > 600 ? LINE : 260 });
    if (this.signal.aborted) return;
    this.drawn = drawn;
    put(this.figure, drawn);
    const point = (event) => {
      const box = drawn.getBoundingClientRect();
      const when = drawn.scale("x").invert(((event.clientX - box.left) / box.width) * drawn.viewBox.baseVal.width);
      const gaps = trend.waves.map(({ begins }) => Math.abs(1000 * begins - when));
      this.look(gaps.indexOf(Math.min(...gaps)));
    };
    drawn.addEventListener("pointermove", point);
    drawn.addEventListener("pointerdown", point);
    put(
      this.legend,
      this.keys.map((key, at) => h("li", {}, swatch(at), nameNode(trend.names[key]))),
    );
    this.look(this.at);
    this.rows();
    this.numbers();
    performance.mark("trend shown");
  }

  /** A wave's numbers, beside the chart and to those who do not see it. */
  look(at) {
    const { trend, what: name } = this;
    this.at = at;
    this.slider.value = String(at);
    const wave = trend.waves[at];
    const [about, digits] = [trend.about(wave), trend.digitsOf(name)];
    const cell = (column, key) => trend.read(name, trend.columns[column][key][at], digits);
    const said = this.keys.map((key) => ({
      key,
      smoothed: cell(`${name}_smoothed`, key),
      band: `${cell(`${name}_smoothed_low`, key)} to ${cell(`${name}_smoothed_high`, key)}`,
      raw: cell(name, key),
      reach: `${cell(`${name}_low`, key)} to ${cell(`${name}_high`, key)}`,
    }));
    this.slider.setAttribute(
      "aria-valuetext",
      `${about}. ${said
        .map(({ key, smoothed, band, raw }) =>
          wave.reports
            ? `${shown(trend.names[key])} ${smoothed}, ${band}; this wave alone ${raw}`
            : `${shown(trend.names[key])} by the waves beside it ${smoothed}, ${band}`,
        )
        .join(". ")}`,
    );
    put(
      this.reading,
      h(
        "p",
        {},
        h("strong", {}, about),
        wave.campaign && [" ", h("a", { href: `#/c/${wave.campaign}/results` }, "Its results")],
      ),
      wave.reports
        ? h(
            "ul",
            {},
            said.map(({ key, smoothed, band, raw, reach }, place) =>
              h(
                "li",
                {},
                swatch(place),
                nameNode(trend.names[key]),
                " ",
                h("strong", {}, smoothed),
                ` (${band})`,
                h("span", { class: "muted" }, `; this wave alone ${raw} (${reach})`),
              ),
            ),
          )
        : h("p", { class: "muted" }, "No line is drawn through it."),
    );
    this.cursor(wave);
  }

  cursor(wave) {
    this.drawn?.querySelector(".cursor")?.remove();
    if (!this.drawn) return;
    const x = this.drawn.scale("x").apply(new Date(1000 * wave.begins));
    const [bottom, top] = this.drawn.scale("y").range;
    this.drawn.append(h("line", { class: "cursor", x1: x, x2: x, y1: top, y2: bottom }));
  }

  fitting() {
    const { trend } = this;
    const wanted = this.q.trim().toLowerCase();
    const most = Number(this.top) || Infinity;
    const within = new Set(trend.top.slice(0, most));
    return trend.byChange.filter(
      (key) => within.has(key) && trend.names[key].slice(0, 2000).toLowerCase().includes(wanted),
    );
  }

  /** Each key's change, the sure ones first; and which keys are drawn. */
  changes() {
    const { since } = this.trend.found;
    const head = since
      ? ["Change, % points", this.trend.called(since.start), this.trend.called(since.end), "Waves alone, % points"]
      : [];
    return h(
      "section",
      {},
      h("h2", {}, since ? `How many people, since ${this.trend.called(since.start)}` : "Each key"),
      this.status,
      h(
        "div",
        { class: "scroll", role: "region", "aria-label": "Changes", tabindex: 0 },
        h(
          "table",
          { class: "keys changes" },
          h(
            "thead",
            {},
            h(
              "tr",
              {},
              h("th", { scope: "col", dataset: { key: "" } }, "Key, drawn or not"),
              head.map((title) => h("th", { scope: "col", class: "number" }, title)),
              since && h("th", { scope: "col", class: "number" }, `Since W${this.trend.found.previous.start} alone`),
            ),
          ),
          this.body,
        ),
      ),
      h(
        "p",
        { class: "muted" },
        "Newer minus older. Change: between the lines, with a 95 % interval that is a little too wide. Waves alone: " +
          "the difference of the two waves' own estimates. An interval that leaves out zero may be chance where " +
          "there are many keys; what is marked as changed is judged over all of them.",
      ),
    );
  }

  rows() {
    const { trend } = this;
    const { since, previous } = trend.found;
    const keys = this.fitting();
    put(this.status, `${count(keys.length)} keys; ${count(Math.min(ROWS, keys.length))} shown.`);
    const ends = since ? since.smoothed_low.concat(since.smoothed_high).filter((each) => each !== null) : [];
    const scale = { from: Math.min(0, ...ends), to: Math.max(0, ...ends) };
    const digits = trend.digitsOf("frequency");
    const points = (number) => (number === null ? "?" : signed(100 * number, digits));
    const row = (key) => {
      const box = h("input", { type: "checkbox", "aria-label": `Draw ${shown(trend.names[key])}` });
      box.checked = this.keys.includes(key);
      box.addEventListener("change", () => this.choose(key, box.checked));
      const at = (number) => percent(trend.columns.frequency_smoothed[key][trend.at.get(number)], digits);
      const within = (changes, name) => {
        const [middle, low, high] = ["", "_low", "_high"].map((end) => points(changes[`${name}${end}`][key]));
        return `${middle} (${low} to ${high})`;
      };
      return h(
        "tr",
        { class: since && !since.is_sure[key] ? "noise" : null },
        h(
          "th",
          { scope: "row" },
          box,
          " ",
          nameNode(trend.names[key]),
          since?.is_sure[key] && h("span", { class: "badge open" }, "changed"),
        ),
        since && [
          h(
            "td",
            { class: "number interval" },
            intervalMark(...ENDS.map((end) => since[`smoothed${end}`][key] ?? NaN), scale),
            " ",
            within(since, "smoothed"),
          ),
          h("td", { class: "number" }, at(since.start)),
          h("td", { class: "number" }, at(since.end)),
          h("td", { class: "number" }, within(since, "raw")),
          h("td", { class: "number" }, within(previous, "raw")),
        ],
      );
    };
    put(this.body, keys.slice(0, ROWS).map(row));
  }

  choose(key, is) {
    const others = this.keys.filter((each) => each !== key);
    this.keys = is ? [...others, key].slice(-PAINTS.length) : others;
    if (!this.keys.length) this.keys = this.usual().slice(0, 1);
    this.remember({ keys: this.keys.map((each) => this.trend.places[each]).join(".") });
    this.show();
  }

  /** The chart's numbers, for those who read them. */
  numbers() {
    const { trend, what: name } = this;
    const digits = trend.digitsOf(name);
    const cell = (column, key, at) => trend.read(name, trend.columns[column][key][at], digits);
    const within = (column, key, at) =>
      `${cell(column, key, at)} (${cell(`${column}_low`, key, at)} to ${cell(`${column}_high`, key, at)})`;
    put(
      this.table,
      h("h2", {}, "The lines in numbers"),
      h(
        "div",
        { class: "scroll short", role: "region", "aria-label": "The lines in numbers", tabindex: 0 },
        h(
          "table",
          { class: "keys numbers" },
          h(
            "thead",
            {},
            h(
              "tr",
              {},
              h("th", { scope: "col", dataset: { key: "" } }, "Wave"),
              h("th", { scope: "col", class: "number" }, "Reports"),
              this.keys.map((key) => h("th", { scope: "col", class: "number" }, nameNode(trend.names[key]))),
              this.keys.map((key) => h("th", { scope: "col", class: "number" }, nameNode(trend.names[key]), ", alone")),
            ),
          ),
          h(
            "tbody",
            {},
            trend.waves
              .map((wave, at) =>
                h(
                  "tr",
                  { class: wave.reports ? null : "noise" },
                  h(
                    "th",
                    { scope: "row" },
                    wave.campaign
                      ? h("a", { href: `#/c/${wave.campaign}` }, trend.called(wave.number))
                      : trend.called(wave.number),
                    wave.state === "open" && h("span", { class: "muted" }, " so far"),
                    !wave.reports && h("span", { class: "muted" }, wave.campaign ? " no answer" : " missed"),
                  ),
                  h("td", { class: "number" }, count(wave.reports)),
                  this.keys.map((key) =>
                    h("td", { class: "number" }, wave.reports ? within(`${name}_smoothed`, key, at) : ""),
                  ),
                  this.keys.map((key) => h("td", { class: "number" }, wave.reports ? within(name, key, at) : "")),
                ),
              )
              .reverse(),
          ),
        ),
      ),
    );
  }

  fileName(ending) {
    const { name, waves, last } = this.trend;
    return `${fileName(name)}-W${waves[0].number}-W${last.number}.${ending}`;
  }

  /** The drawn keys' numbers, a row a wave and key, by the names that the release has. */
  csv() {
    const { trend } = this;
    const columns = Object.keys(trend.columns);
    const lines = [["wave", "begins", "key", "reports", ...columns]];
    trend.waves.forEach((wave, at) => {
      for (const key of this.keys) {
        lines.push([
          String(wave.number),
          new Date(1000 * wave.begins).toISOString().slice(0, 10),
          trend.keys[key],
          String(wave.reports),
          ...columns.map((name) => String(trend.columns[name][key][at] ?? "")),
        ]);
      }
    });
    const text = lines.map((line) => line.map(csvCell).join(",")).join("\r\n");
    return new Blob([`${text}\r\n`], { type: "text/csv" });
  }

  png() {
    this.drawn.querySelector(".cursor")?.remove();
    return paint(this.drawn, getComputedStyle(this.chart).backgroundColor);
  }
}

/** A cell of a CSV; a name that a spreadsheet would run is quoted with an apostrophe, as in exports. */
function csvCell(text, column) {
  const safe = column === 2 && /^[=+\-@\t\r]/.test(text) ? `'${text}` : text;
  return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}

/** A change with its sign. */
function signed(number, digits) {
  const text = number.toFixed(digits);
  if (Number(text) === 0) return (0).toFixed(digits);
  return number > 0 ? `+${text}` : text.replace("-", "\u2212");
}

async function multiples(trend, view, width) {
  const columns = Math.max(1, Math.floor(width / 240));
  const each = Math.min(280, Math.max(150, Math.floor((width - 30) / Math.max(2, columns)) - 24));
  const keys = trend.top.slice(0, MULTIPLES);
  const digits = trend.digitsOf("frequency");
  const last = trend.at.get(trend.last.number);
  const figures = await Promise.all(
    keys.map(async (key) =>
      h(
        "figure",
        {},
        h(
          "figcaption",
          {},
          `${percent(trend.columns.frequency_smoothed[key][last], digits)} `,
          nameNode(trend.names[key]),
        ),
        await smallLine(trend, key, { width: each }),
        trend.stepsOf(key).map((step) => h("p", { class: "muted" }, trend.dated(step))),
      ),
    ),
  );
  return h(
    "section",
    {},
    h("h2", {}, keys.length === 1 ? "The one key" : `The ${keys.length} most used, each on its own scale`),
    h("div", { class: "multiples" }, figures),
  );
}

// --- notes ---

/** What happened when: listed, added and taken away by whoever may. */
function notes(trend, redraw, signal) {
  if (!trend.annotations.length && !trend.may_annotate) return null;
  const said = h("span", { class: "wrong", role: "alert" });
  const remove = (note) => async () => {
    try {
      await drop(`/v1/series/${trend.id}/annotations/${note.id}`);
      say("The note was taken away");
      redraw();
    } catch (error) {
      if (signal.aborted) return;
      put(said, `${error.title}. ${error.remedy}`);
    }
  };
  return h(
    "section",
    { class: "card notes" },
    h("h2", {}, "Notes"),
    trend.annotations.length > 0 &&
      h(
        "ol",
        {},
        trend.annotations.map((note) =>
          h(
            "li",
            {},
            `${dateOf(note.at)}: `,
            h("span", { class: "name" }, shown(note.text)),
            " ",
            trend.may_annotate &&
              h(
                "button",
                {
                  type: "button",
                  class: "quiet no-print",
                  "aria-label": `Remove the note ${shown(note.text)}`,
                  onclick: remove(note),
                },
                "Remove",
              ),
          ),
        ),
      ),
    trend.may_annotate && noteForm(trend.id, redraw),
    said,
  );
}

function noteForm(series, done) {
  const text = h("input", {
    type: "text",
    id: "note-text",
    maxlength: 200,
    required: true,
    placeholder: "2.3 released",
  });
  const date = h("input", {
    type: "date",
    id: "note-date",
    required: true,
    value: new Date().toISOString().slice(0, 10),
  });
  const said = h("span", { class: "muted", role: "status" });
  return h(
    "form",
    {
      class: "controls no-print",
      onsubmit: async (event) => {
        event.preventDefault();
        try {
          await post(`/v1/series/${series}/annotations`, { at: Date.parse(date.value) / 1000, text: text.value });
          say("The note was added");
          put(said, "Noted.");
          done();
        } catch (error) {
          if (!(error instanceof Trouble)) throw error;
          put(said, `${error.title}. ${error.remedy}`);
        }
      },
    },
    field("What happened", text),
    field("On (UTC)", date),
    h("p", {}, h("button", {}, "Add the note")),
    said,
  );
}

/** An annotator's token reads nothing, and may note. */
function blindNotes(series) {
  return h(
    "section",
    { class: "card notes" },
    h("h2", {}, "Note what happened"),
    h(
      "p",
      { class: "muted" },
      `This token reads no results. An annotator's may still say what happened; today is ${day(Date.now() / 1000)}.`,
    ),
    noteForm(series, () => undefined),
  );
}
