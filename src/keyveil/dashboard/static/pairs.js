/** Which keys are held together: what is sure in words, a matrix of lifts, one pair with its intervals, every pair. */

import { get } from "./api.js";
import { intervalMark } from "./charts.js";
import { h, nameNode, put, say, shortened, shown } from "./dom.js";
import { count, digitsFor, percent, value } from "./format.js";
import { ifNoReports, noReportYet, searched } from "./parts.js";

const MOST_SAID = 10;
// A matrix of more keys is no picture; every pair is in the list.
const MATRIX_KEYS = 64;
// Where an arrow leads inside the matrix: rows down, columns to the right.
const ARROWS = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };

/** What the collector's rows say of pairs (Python: `keyveil.pairs.PairsRelease`). */
class Held {
  constructor({ metadata, rows }) {
    this.metadata = metadata;
    this.unit = metadata.unit ?? "";
    this.isOpen = metadata.state === "interim";
    this.rows = rows;
    /** The surest lift first, then what is surely rarer than by chance, then what may be chance. */
    this.order = [...rows.keys()].sort((a, b) => this.weight(b) - this.weight(a) || a - b);
    this.sure = this.order.filter((place) => rows[place].surely);
    this.digits = digitsFor(100 * Math.min(...rows.map((row) => row.both_high - row.both_low)));
  }

  /** Only the order of pairs. */
  weight(place) {
    const { surely, lift_low: low, lift_high: high } = this.rows[place];
    if (!surely) return low - 1e9;
    return this.isMore(place) ? low : -(high ?? 0);
  }

  isMore(place) {
    return this.rows[place].surely.startsWith("more");
  }

  /** What a pair's two keys are called. */
  namesOf(place) {
    const row = this.rows[place];
    return [row.first_name ?? row.first, row.second_name ?? row.second];
  }

  titleOf(place) {
    return this.namesOf(place)
      .map((name) => shown(name))
      .join(" & ");
  }

  share(place, name) {
    return percent(this.rows[place][name], this.digits);
  }

  /** A share's interval in words. */
  interval(place, name) {
    return `${this.share(place, `${name}_low`)} to ${this.share(place, `${name}_high`)}`;
  }

  lift(place) {
    return this.rows[place].lift === null ? "?" : value(this.rows[place].lift, 2);
  }

  liftInterval(place) {
    const { lift, lift_low: low, lift_high: high } = this.rows[place];
    if (lift === null) return "anything";
    return high === null ? `${value(low, 2)} or more` : `${value(low, 2)} to ${value(high, 2)}`;
  }

  /** A pair in words. */
  said(place) {
    const { surely } = this.rows[place];
    return [
      `${this.titleOf(place)}: lift ${this.lift(place)}, 95 %: ${this.liftInterval(place)}`,
      `held together by ${this.share(place, "both")} of people, 95 %: ${this.interval(place, "both")}`,
      surely ? `surely ${surely}` : "may be chance",
    ].join("; ");
  }
}

/** Draw the pairs of a campaign's keys below a page's switch. */
export async function drawPairs({ content, id, query, remember, signal }) {
  const sent = await get(`/v1/campaigns/${id}/pairs`, { signal }).catch(ifNoReports);
  if (!sent) {
    content.append(noReportYet(id));
    return;
  }
  const held = new Held(sent);
  const detail = h("div", { class: "one-pair" });
  const look = (place) => {
    remember({ pair: place });
    put(detail, onePair(held, place));
    detail.querySelector("h2").focus();
    say(held.said(place));
  };
  content.append(answer(held, look), matrix(held, look), detail, list(held, { query, remember, look }));
  const asked = Number(query.get("pair") ?? "none");
  if (asked in held.rows) put(detail, onePair(held, asked));
}

const pairButton = (held, place, look) => {
  const [first, second] = held.namesOf(place);
  return h(
    "button",
    { type: "button", class: "key-button", onclick: () => look(place) },
    nameNode(first),
    " & ",
    nameNode(second),
  );
};

/** What is sure, in words, with how often such a list is wrong. */
function answer(held, look) {
  const listed = held.sure.slice(0, MOST_SAID);
  const rest = held.sure.length - listed.length;
  return h(
    "section",
    { class: "card answer-strip" },
    h("h2", {}, "Held together"),
    listed.length
      ? h(
          "ul",
          { class: "answers" },
          listed.map((place) =>
            h(
              "li",
              {},
              pairButton(held, place, look),
              ": ",
              h("strong", {}, `${held.lift(place)} times`),
              ` as often as by chance (${held.liftInterval(place)}), by ${held.share(place, "both")} of people.`,
            ),
          ),
        )
      : h("p", {}, "No pair surely differs from chance: more reports are needed, or keys are held independently."),
    rest > 0 && h("p", {}, `And ${count(rest)} more, marked below.`),
    h(
      "p",
      { class: "muted" },
      `Judged over all ${count(held.rows.length)} pairs at once: of 100 tables of keys that are held by chance at ` +
        "most 5 would list one. Intervals are 95 %, each of its pair alone. ",
      held.isOpen && "More reports may come. ",
      (held.metadata.notes ?? []).map((note) => `Note: ${note}. `),
    ),
  );
}

/** Keys by keys: lifts with their intervals, grey where 1 cannot be excluded. */
function matrix(held, look) {
  const keys = new Map();
  for (const place of held.order) {
    const { first, second } = held.rows[place];
    for (const [at, key] of [first, second].entries()) {
      if (keys.size < MATRIX_KEYS && !keys.has(key)) keys.set(key, held.namesOf(place)[at]);
    }
  }
  const places = new Map();
  for (const [place, { first, second }] of held.rows.entries()) {
    places.set(JSON.stringify([first, second]), place);
    places.set(JSON.stringify([second, first]), place);
  }
  const names = [...keys.keys()];
  const said = h("p", { class: "said", role: "status" }, "Point at a cell, or go there with the arrow keys.");
  const cells = names.map((row, down) =>
    names.map((column, across) => {
      const place = places.get(JSON.stringify([row, column]));
      if (place === undefined) return null;
      return cell(held, place, { down, across, look, said });
    }),
  );
  const buttons = cells.flat().filter((each) => each !== null);
  if (buttons.length) buttons[0].tabIndex = 0;
  const body = h(
    "tbody",
    {},
    names.map((key, down) =>
      h(
        "tr",
        {},
        h("th", { scope: "row" }, nameNode(shortened(keys.get(key)))),
        cells[down].map((button) =>
          button === null
            ? h("td", { class: "number noise" }, h("span", { class: "unseen" }, "not asked"))
            : h("td", { class: button.dataset.kind }, button),
        ),
      ),
    ),
  );
  body.addEventListener("keydown", (event) => {
    const [down, across] = ARROWS[event.key] ?? [0, 0];
    const from = event.target.closest("button");
    if (!from || (!down && !across)) return;
    event.preventDefault();
    let [row, column] = [Number(from.dataset.down) + down, Number(from.dataset.across) + across];
    // Keys with themselves, and pairs that nobody asked about, are stepped over.
    while (cells[row]?.[column] === null) [row, column] = [row + down, column + across];
    const next = cells[row]?.[column];
    if (!next) return;
    from.tabIndex = -1;
    next.tabIndex = 0;
    next.focus();
  });
  return h(
    "section",
    {},
    h("h2", {}, "How much more often than by chance"),
    h(
      "div",
      { class: "scroll", role: "region", "aria-label": "Lifts of pairs of keys", tabindex: 0 },
      h(
        "table",
        { class: "keys heat lifts" },
        h(
          "thead",
          {},
          h(
            "tr",
            {},
            h("th", { scope: "col", dataset: { key: "" } }, "Key"),
            names.map((key) => h("th", { scope: "col", class: "number" }, nameNode(shortened(keys.get(key), 12)))),
          ),
        ),
        body,
      ),
    ),
    said,
    h(
      "p",
      { class: "muted" },
      "Lift: how many times as many hold both keys as if the one said nothing of the other, with its 95 % interval. " +
        "\u25b2 and \u25bc: surely more or less often than by chance, of all pairs together; grey: lift 1 cannot be " +
        "excluded. A cell leads to its pair.",
      names.length === MATRIX_KEYS && " The keys of the surest pairs; every pair is below.",
    ),
  );
}

/** A pair's cell in the matrix: a button that tells all to who points at it or comes to it. */
function cell(held, place, { down, across, look, said }) {
  const { surely } = held.rows[place];
  const words = held.said(place);
  const tell = () => put(said, words);
  const kind = surely ? (held.isMore(place) ? "number shade-3" : "number rarer") : "number noise";
  const mark = surely ? (held.isMore(place) ? "\u25b2 " : "\u25bc ") : "";
  return h(
    "button",
    {
      type: "button",
      class: "lift",
      tabindex: -1,
      title: words,
      dataset: { kind, down, across },
      onclick: () => look(place),
      onfocus: tell,
      onpointerenter: tell,
    },
    h("span", { class: "unseen" }, `${held.titleOf(place)}: `),
    h("span", {}, mark, held.lift(place)),
    h("span", { class: "ends" }, held.liftInterval(place)),
  );
}

/** One pair: shares, lift, each key given the other, and means, with their intervals. */
function onePair(held, place) {
  const row = held.rows[place];
  const [first, second] = held.namesOf(place).map((name) => shown(name));
  const share = (name) => [
    held.share(place, name),
    intervalMark(row[`${name}_low`], row[name], row[`${name}_high`], { from: 0, to: 1 }),
    held.interval(place, name),
  ];
  const mean = (name) => {
    const [low, middle, high] = [row[`${name}_low`], row[name], row[`${name}_high`]];
    const digits = digitsFor((high - low) / 2);
    return [value(middle, digits), null, `${value(low, digits)} to ${value(high, digits)}`];
  };
  const lines = [
    ["People who hold both", ...share("both")],
    ["As many by chance", held.share(place, "by_chance"), null, ""],
    ["Pulled towards chance, as all pairs are", held.share(place, "both_shrunk"), null, ""],
    ["Lift", held.lift(place), null, held.liftInterval(place)],
    [`Of those who hold ${first}, hold ${second}`, ...share("second_given_first")],
    [`Of those who hold ${second}, hold ${first}`, ...share("first_given_second")],
    ...[
      ["mean_first", first, second],
      ["mean_second", second, first],
    ]
      .filter(([name]) => row[name] !== null)
      .map(([name, of, other]) => [
        `Mean of ${of}${held.unit && `, ${shown(held.unit)},`} beside ${other}`,
        ...mean(name),
      ]),
  ];
  return h(
    "section",
    { class: "card" },
    h("h2", { tabindex: -1 }, held.titleOf(place)),
    h("p", {}, row.surely ? `Surely held together ${row.surely}.` : "May be held together by chance."),
    h(
      "div",
      { class: "scroll", role: "region", "aria-label": "One pair of keys", tabindex: 0 },
      h(
        "table",
        { class: "keys" },
        h(
          "thead",
          {},
          h(
            "tr",
            {},
            ["What", "Estimate", "95 % interval"].map((title, at) =>
              h("th", { scope: "col", class: at === 1 ? "number" : null }, title),
            ),
          ),
        ),
        h(
          "tbody",
          {},
          lines.map(([what, estimate, mark, ends]) =>
            h(
              "tr",
              {},
              h("th", { scope: "row" }, what),
              h("td", { class: "number strong" }, estimate),
              h("td", { class: "interval" }, mark, h("span", {}, ends)),
            ),
          ),
        ),
      ),
    ),
  );
}

/** Every pair, the surest first. */
function list(held, { query, remember, look }) {
  const titles = ["Pair", "People with both", "95 % interval", "Lift", "95 % interval", "Of all pairs"];
  return searched(
    {
      title: "Every pair",
      what: "pair",
      options: [
        ["all", "all pairs"],
        ["sure", "pairs that are sure"],
      ],
      order: held.order,
      fits: (place, wanted, which) =>
        (which === "all" || held.rows[place].surely) &&
        (!wanted || held.namesOf(place).some((name) => name.toLowerCase().includes(wanted))),
      line: (place) => line(held, place, look),
      look: "keys every-pair",
      heads: titles.map((title, at) => h("th", { scope: "col", class: at === 1 || at === 3 ? "number" : null }, title)),
    },
    { query, remember },
  );
}

function line(held, place, look) {
  const { surely } = held.rows[place];
  return h(
    "tr",
    { class: surely ? null : "noise", dataset: { pair: place } },
    h("th", { scope: "row" }, pairButton(held, place, look)),
    h("td", { class: "number" }, held.share(place, "both")),
    h("td", {}, held.interval(place, "both")),
    h("td", { class: "number strong" }, held.lift(place)),
    h("td", {}, held.liftInterval(place)),
    h("td", {}, surely || "may be chance"),
  );
}
