import { post, token, Trouble } from "../api.js";
import { figure } from "../charts.js";
import { download, h, nameNode, put, say, shown } from "../dom.js";
import { asSentence, bestGuess, count, guessWords, percent, short } from "../format.js";
import { choice, field } from "../parts.js";
import { mostInAYear } from "../trends.js";

/** Sliders move on a scale of ratios: from, to, how the number is read, and how it is said. */
const SLIDERS = {
  users: {
    title: "People who answer",
    from: 100,
    to: 1e9,
    usual: 100_000,
    digits: 11,
    read: (n) => Math.round(Number(n.toPrecision(3))),
    show: count,
  },
  keys: {
    title: "Keys asked about",
    from: 1,
    to: 100_000,
    usual: 100,
    digits: 11,
    read: (n) => Math.round(Number(n.toPrecision(3))),
    show: count,
  },
  epsilon: {
    title: "Epsilon",
    from: 0.05,
    to: 12,
    usual: 1,
    digits: 4,
    read: (n) => Number(n.toPrecision(2)),
    show: (n) => String(Number(n.toPrecision(4))),
  },
  pairs_per_user: {
    title: "Pairs a person holds, at most",
    from: 1,
    to: 64,
    usual: 3,
    digits: 11,
    read: (n) => Math.round(n),
    show: count,
  },
  error: {
    title: "Error (root mean square)",
    from: 0.0001,
    to: 0.5,
    usual: 0.01,
    digits: 3,
    read: (n) => Number(n.toPrecision(2)),
    show: errorWords,
  },
};
const NAMES = Object.keys(SLIDERS);
const STEPS = 1000;
const PALETTE = ["var(--blue)", "var(--orange)", "var(--green)", "var(--pink)", "var(--amber)", "var(--muted)"];
// Marks on the axis of epsilons.
const TICKS = [0.05, 0.1, 0.2, 0.5, 1, 2, 5, 12];
const WAIT = 180;
const TOP = 50;
const DELTA = 1e-8;
const HONEST = 0.5;
const MOST_WAVES = 1000;
// Days of a wave, at most.
const LONGEST = { day: 1, week: 7, month: 31 };
// Errors come on the scale of shares, or of values from -1 to 1; people read percent.
const UNITS = {
  frequency: [100, "error of frequencies", "% points"],
  mean: [50, "error of means", "% of the value range"],
  distribution: [100, "error of shares of values", "% points"],
};

/** An error in the unit of what is wanted. */
function errorWords(n, { want }) {
  const [scale, , unit] = UNITS[want];
  return `${short(scale * n)} ${unit}`;
}

const toPlace = ({ from, to }, n) =>
  Math.round((STEPS * Math.log(Math.min(to, Math.max(from, n)) / from)) / Math.log(to / from));
const toNumber = ({ from, to, read }, place) => read(from * (to / from) ** (place / STEPS));

/** What a campaign would be able to say, before anybody is asked. */
export async function draw({ content, query, remember, signal }) {
  if (!token.get()) {
    throw new Trouble({
      code: "no-token",
      title: "A token is needed",
      detail: "The planner computes on the collector.",
      remedy: "Enter a token of any campaign; the command keyveil plan does the same without a collector.",
      status: 401,
    });
  }
  const state = {
    solve: query.get("solve") ?? "error",
    want: query.get("want") ?? "frequency",
    skew: Number(query.get("skew") ?? 1),
  };
  for (const name of NAMES) state[name] = Number(query.get(name)) || SLIDERS[name].usual;
  const relay = new Relay(query, () => change());
  const again = new Again(query, () => change());
  const rows = Object.fromEntries(NAMES.map((name) => [name, slider(name, state, () => change())]));
  const want = choice(
    "want",
    [
      ["frequency", "how many hold each key"],
      ["mean", "how much, on average"],
      ["distribution", "how values are spread"],
    ],
    state.want,
  );
  const skew = h("input", { type: "range", id: "skew", min: 0, max: 2, step: 0.1, value: state.skew });
  const skewTyped = h("input", {
    type: "number",
    id: "n-skew",
    min: 0,
    max: 2,
    step: "any",
    value: state.skew,
    "aria-label": "Popularity of keys, as a number",
  });
  const skewSaid = h("output", { for: "skew n-skew" });
  const words = h("ul", { class: "words", "aria-live": "polite" });
  const curve = h("div", { class: "curve" });
  const outlook = h("section", { class: "card" }, h("h2", {}, "Error against people"), curve);
  const prices = h("div", { class: "curve" });
  const priced = h("section", { class: "card" }, h("h2", {}, "What epsilon buys, and what it costs"), prices);
  const ranking = h("div");
  const ranked = h("section", {}, h("h2", {}, "Mechanisms, best first"), ranking);
  const draft = new Draft((n) => {
    if (n > 0) rows.keys.show((state.keys = n));
    return ask();
  });
  let asking = new AbortController();
  let timer;

  const change = () => {
    clearTimeout(timer);
    timer = setTimeout(ask, WAIT);
  };
  const ask = async () => {
    asking.abort();
    const mine = (asking = new AbortController());
    const body = { solve: state.solve, want: state.want, skew: state.skew, ...relay.fields() };
    for (const name of NAMES) body[name] = state[name];
    remember(
      { ...body, ...again.remembered() },
      {
        solve: "error",
        want: "frequency",
        skew: 1,
        relay: false,
        ...Object.fromEntries(NAMES.map((name) => [name, SLIDERS[name].usual])),
      },
    );
    content.setAttribute("aria-busy", "true");
    try {
      // What is planned is a wave, of whom it asks.
      const users = Math.max(1, Math.round(state.users * again.share));
      const answer = await post("/v1/plan", { ...body, users, ...again.planned() }, { signal: mine.signal });
      if (mine.signal.aborted) return;
      answer.solved.users = state.solve === "users" ? Math.round(answer.solved.users / again.share) : state.users;
      state[state.solve] = answer.solved[state.solve];
      rows[state.solve].show(answer.solved[state.solve]);
      put(
        words,
        [...again.sentences(answer), ...sentences(answer, state)].map((sentence) => h("li", {}, sentence)),
      );
      outlook.hidden = ranked.hidden = false;
      put(ranking, rankingTable(answer));
      put(curve, await curves(answer, state, curve.clientWidth));
      priced.hidden = !answer.epsilons.length;
      put(prices, priced.hidden ? null : await priceCurve(answer, state, again, prices.clientWidth));
      draft.again = again;
      draft.choose(answer);
    } catch (error) {
      if (mine.signal.aborted) return;
      if (!(error instanceof Trouble)) throw error;
      put(
        words,
        h(
          "li",
          { class: "wrong" },
          error.code === "no-plan" ? asSentence(error.detail) : `${error.title}. ${error.detail} ${error.remedy}`,
        ),
      );
      outlook.hidden = priced.hidden = ranked.hidden = true;
      draft.choose({ drafts: [], solved: state });
    } finally {
      if (mine === asking) content.removeAttribute("aria-busy");
    }
  };
  const choose = (name) => {
    state.solve = name;
    for (const each of NAMES) rows[each].solve(each === name);
    ask();
  };
  for (const name of NAMES) rows[name].onSolve(() => choose(name));
  want.addEventListener("change", () => {
    state.want = want.value;
    rows.error.show(state.error);
    ask();
  });
  const setSkew = (from, to) => {
    if (from.value === "" || !from.checkValidity()) return;
    state.skew = Number(from.value);
    to.value = from.value;
    put(skewSaid, skewWords(state.skew));
    change();
  };
  skew.addEventListener("input", () => setSkew(skew, skewTyped));
  skewTyped.addEventListener("input", () => setSkew(skewTyped, skew));
  skewTyped.addEventListener("change", () => (skewTyped.value = state.skew));
  put(skewSaid, skewWords(state.skew));
  signal.addEventListener("abort", () => {
    clearTimeout(timer);
    asking.abort();
  });
  addEventListener("theme", ask, { signal });
  content.append(
    h("h1", { tabindex: -1 }, "Plan a campaign"),
    h(
      "p",
      { class: "lead" },
      "Set four numbers; the fifth is solved for. Errors are predicted from each mechanism's own kernel, " +
        "before anybody is asked.",
    ),
    h(
      "div",
      { class: "plan-grid" },
      h(
        "form",
        { class: "card sliders", onsubmit: (event) => event.preventDefault() },
        h(
          "fieldset",
          {},
          h("legend", {}, "Solve for one, set the others"),
          NAMES.map((name) => rows[name].node),
        ),
        field("What matters most", want),
        h(
          "div",
          { class: "slider" },
          h("span", { class: "slider-head" }, h("label", { for: "skew" }, "Popularity of keys"), skewTyped),
          skew,
          skewSaid,
        ),
        relay.node,
        again.node,
      ),
      h("div", {}, h("section", { class: "card" }, h("h2", {}, "What will be known"), words), outlook, priced),
    ),
    ranked,
    draft.node,
  );
  choose(NAMES.includes(state.solve) ? state.solve : "error");
}

function skewWords(skew) {
  return skew === 0 ? "all keys alike" : `the tenth key is ${short(100 * 10 ** -skew)} % as popular as the first`;
}

/** A number on a slider, typed beside it, and the choice to solve for it. */
function slider(name, state, changed) {
  const about = SLIDERS[name];
  // What is typed is in the unit that is shown.
  const scale = () => (name === "error" ? UNITS[state.want][0] : 1);
  const range = h("input", { type: "range", id: `s-${name}`, min: 0, max: STEPS, "aria-label": about.title });
  const number = h("input", {
    type: "number",
    id: `n-${name}`,
    step: "any",
    "aria-label": `${about.title}, as a number`,
  });
  const unit = h("span", { class: "muted" });
  const radio = h("input", {
    type: "radio",
    name: "solve",
    id: `solve-${name}`,
    value: name,
    checked: state.solve === name,
  });
  const node = h(
    "div",
    { class: "slider" },
    h(
      "span",
      { class: "slider-head" },
      h("label", { for: `s-${name}` }, about.title),
      h("span", { class: "typed" }, number, unit),
    ),
    range,
    h(
      "span",
      { class: "solve" },
      radio,
      h("label", { for: `solve-${name}` }, "solve", h("span", { class: "unseen" }, ` for ${about.title}`)),
    ),
  );
  const place = (n) => {
    range.value = toPlace(about, n);
    range.setAttribute("aria-valuetext", about.show(n, state));
  };
  const show = (n) => {
    place(n);
    number.min = short(scale() * about.from);
    number.max = short(scale() * about.to);
    number.value = Number((scale() * n).toPrecision(about.digits));
    put(unit, name === "error" && UNITS[state.want][2]);
  };
  range.addEventListener("input", () => {
    state[name] = toNumber(about, Number(range.value));
    show(state[name]);
    changed();
  });
  number.addEventListener("input", () => {
    if (number.value === "" || number.validity.rangeUnderflow || number.validity.rangeOverflow) return;
    const typed = Number(number.value) / scale();
    state[name] = about.digits > 4 ? Math.round(typed) : typed;
    place(state[name]);
    changed();
  });
  number.addEventListener("change", () => show(state[name]));
  show(state[name]);
  return {
    node,
    show,
    solve(is) {
      range.disabled = is;
      number.readOnly = is;
      node.classList.toggle("solved", is);
      radio.checked = is;
    },
    onSolve: (listener) => radio.addEventListener("change", listener),
  };
}

function sentences({ plan, solved }, state) {
  const { choice: best } = plan;
  const head = {
    users: `It takes ${count(solved.users)} people.`,
    keys: `Up to ${count(solved.keys)} keys can be asked about.`,
    epsilon: `Epsilon ${Number(solved.epsilon.toPrecision(4))} is enough.`,
    pairs_per_user: `People may hold up to ${count(solved.pairs_per_user)} pairs.`,
    error: `The error will be about ${errorWords(plan.error, state)}.`,
  }[state.solve];
  const said = [
    h("strong", {}, head),
    `A key held by ${percent(best.detectable_frequency, best.detectable_frequency < 0.01 ? 2 : 1)} of people ` +
      "or more stands out from noise.",
  ];
  if (best.mean_rmse !== null && state.want !== "distribution") {
    said.push(`Means of the most frequent keys miss by about ${short(50 * best.mean_rmse)} % of the value range.`);
  }
  if (state.keys > TOP) {
    said.push(
      `Of the true top ${TOP}, about ${Math.round(100 * best.precision_top)} % will be among the estimated top ${TOP}.`,
    );
  }
  if (best.mean_rmse === null && state.want === "frequency") {
    said.push("The best for that tells no means; the ranking below has others.");
  }
  const [scale, , unit] = UNITS[state.want];
  const inPercent = (sentence) =>
    sentence.replace(/ error of ([\d.e-]+)$/, (_, error) => ` error of ${short(scale * error)} ${unit}`);
  return [
    ...said,
    ...plan.words
      .filter((sentence) => !/ (is|are) enough for an error of /.test(sentence))
      .map((sentence) => asSentence(inPercent(sentence))),
  ];
}

/** Whether a relay hides reports, and what is then promised. */
class Relay {
  constructor(query, changed) {
    this.is = h("input", { type: "checkbox", id: "relay" });
    this.is.checked = query.get("relay") === "true";
    const number = (name, usual, more) =>
      h("input", { type: "number", id: `relay-${name}`, value: query.get(name) ?? usual, ...more });
    this.delta = number("delta", DELTA, { min: 0, max: 1, step: "any" });
    this.batch = number("batch", "", { min: 2, placeholder: "4 in 5 users" });
    this.honest = number("honest", HONEST, { min: 0, max: 1, step: "any" });
    this.more = h(
      "div",
      {},
      h(
        "p",
        { class: "muted" },
        "Epsilon above is then what a collector may learn that does not pool data with the relay.",
      ),
      field("Delta", this.delta),
      field("Reports in a batch, at least", this.batch),
      field("Share of a batch that is honest", this.honest),
    );
    this.node = h("fieldset", {}, h("label", {}, this.is, " A relay hides reports"), this.more);
    this.more.hidden = !this.is.checked;
    for (const input of [this.is, this.delta, this.batch, this.honest]) {
      input.addEventListener("change", () => {
        this.more.hidden = !this.is.checked;
        changed();
      });
    }
  }

  fields() {
    if (!this.is.checked) return { relay: false };
    const batch = Number(this.batch.value);
    return {
      relay: true,
      delta: Number(this.delta.value) || DELTA,
      honest: Number(this.honest.value) || HONEST,
      ...(batch >= 2 ? { batch: Math.round(batch) } : {}),
    };
  }
}

/** Whether it is asked again and again, how often a device answers, and what that costs. */
class Again {
  constructor(query, changed) {
    this.is = h("input", { type: "checkbox", id: "again" });
    this.is.checked = query.has("every");
    this.every = choice(
      "every",
      [
        ["week", "every week"],
        ["day", "every day"],
        ["month", "every month"],
      ],
      query.get("every") ?? "week",
    );
    const number = (name, usual, least) =>
      h("input", { type: "number", id: name, value: query.get(name) ?? usual, min: least, max: MOST_WAVES, step: 1 });
    this.waves = number("waves", 52, 2);
    this.answers = number("answers", 1, 1);
    this.more = h(
      "div",
      {},
      h(
        "p",
        { class: "muted" },
        "A series. Epsilon above is then of one answer, and the people are those of all waves together.",
      ),
      field("How often", this.every),
      field("Waves", this.waves),
      field("Waves that a device answers", this.answers),
    );
    this.node = h("fieldset", {}, h("label", {}, this.is, " Ask again and again"), this.more);
    this.more.hidden = !this.is.checked;
    for (const input of [this.is, this.every, this.waves, this.answers]) {
      input.addEventListener("change", () => {
        this.more.hidden = !this.is.checked;
        changed();
      });
    }
  }

  /** What a campaign's text says of it; null where it is asked once. */
  get series() {
    if (!this.is.checked) return null;
    const waves = Math.min(MOST_WAVES, Math.max(2, Math.round(Number(this.waves.value)) || 2));
    const answers = Math.min(waves, Math.max(1, Math.round(Number(this.answers.value)) || 1));
    return { every: this.every.value, waves, answers };
  }

  /** The share of all people that a wave asks. */
  get share() {
    return this.series ? this.series.answers / this.series.waves : 1;
  }

  /** What a plan of one wave must know of the others. */
  planned() {
    return this.series ? { waves: this.series.waves, answers: this.series.answers } : {};
  }

  remembered() {
    return this.series ?? { every: "", waves: "", answers: "" };
  }

  /** Of whom a wave asks, and what it costs a person. */
  sentences({ solved, smallest_changes: changes }) {
    if (!this.series) return [];
    const { every, waves, answers } = this.series;
    const [whole, year] = [answers, mostInAYear(every, waves, answers)].map((n) => short(n * solved.epsilon));
    return [
      h(
        "span",
        { id: "series-price" },
        h("strong", {}, `It costs a person epsilon ${whole} in all, and at most ${year} in a year.`),
      ),
      `A wave asks ${count(Math.round(solved.users * this.share))} of ${count(solved.users)} people: ` +
        `${answers} of ${waves} waves each. What follows is of one wave alone.`,
      changes.length > 0 &&
        `In the middle of the series a step is seen nine times in ten if it is at least ${changes
          .map(
            ([frequency, change]) => `${short(100 * change)} % points of a key that ${short(100 * frequency)} % hold`,
          )
          .join(", ")}.`,
    ].filter(Boolean);
  }
}

function rankingTable({ plan, solved: { keys } }) {
  const isSpread = plan.want === "distribution";
  const columns = [
    "Mechanism",
    ...(plan.central ? ["Local epsilon"] : []),
    "l",
    "Frequency error, % points",
    isSpread ? "Share error, % points" : "Mean error, % of range",
    "Stands out from",
    `Top ${Math.min(TOP, keys)} found`,
    "Bits a report",
  ];
  return h(
    "div",
    { class: "scroll", role: "region", "aria-label": "Mechanisms", tabindex: 0 },
    h(
      "table",
      {},
      h(
        "thead",
        {},
        h(
          "tr",
          {},
          columns.map((title, at) => h("th", { scope: "col", class: at ? "number" : null }, title)),
        ),
      ),
      h(
        "tbody",
        {},
        plan.candidates.map((one, at) =>
          h(
            "tr",
            { class: at ? null : "best" },
            h(
              "th",
              { scope: "row" },
              h("code", {}, one.mechanism),
              one.options.rho ? ` rho = ${one.options.rho}` : "",
              !at && h("span", { class: "badge open" }, "best"),
            ),
            plan.central && h("td", { class: "number" }, Number(one.epsilon.toPrecision(3))),
            h("td", { class: "number" }, one.pairs_per_user),
            h("td", { class: "number" }, short(100 * one.frequency_rmse)),
            h(
              "td",
              { class: "number" },
              isSpread
                ? short(100 * one.share_rmse)
                : one.mean_rmse === null
                  ? "tells none"
                  : short(50 * one.mean_rmse),
            ),
            h("td", { class: "number" }, percent(one.detectable_frequency)),
            h("td", { class: "number" }, one.precision_top === null ? "-" : `${Math.round(100 * one.precision_top)} %`),
            h("td", { class: "number" }, count(one.bits_per_report)),
          ),
        ),
      ),
    ),
  );
}

async function curves({ users, curves: lines, plan }, state, width) {
  const [scale, what, unit] = UNITS[state.want];
  const rows = lines
    .flatMap(({ label, errors }, line) => users.map((n, at) => ({ line, label, users: n, error: scale * errors[at] })))
    .filter(({ error }) => error > 0);
  const drawn = await figure((Plot) => ({
    width: Math.max(300, width),
    height: 320,
    marginLeft: 56,
    marginBottom: 44,
    x: { type: "log", label: "people" },
    y: { type: "log", label: `${what}, ${unit}` },
    ariaLabel: "Predicted error of every mechanism against the number of people",
    marks: [
      Plot.gridX({ stroke: "var(--line)", strokeOpacity: 1 }),
      Plot.gridY({ stroke: "var(--line)", strokeOpacity: 1 }),
      Plot.axisX({ color: "var(--muted)", tickFormat: "~s", ticks: width < 500 ? 3 : 6, labelOffset: 38 }),
      Plot.axisY({ color: "var(--muted)", tickFormat: "~g", ticks: 5 }),
      Plot.lineY(rows, {
        x: "users",
        y: "error",
        z: "line",
        stroke: (row) => PALETTE[row.line],
        strokeWidth: (row) => (row.line ? 1.5 : 3),
      }),
      plan.wanted_error
        ? Plot.ruleY([scale * plan.wanted_error], { stroke: "var(--ink)", strokeDasharray: "5 4" })
        : null,
      Plot.dot([{}], { x: plan.choice.users, y: scale * plan.error, r: 6, fill: "var(--ink)" }),
    ],
  }));
  const legend = h(
    "ul",
    { class: "legend" },
    lines.map(({ label }, at) => h("li", {}, swatch(at), label)),
  );
  return [drawn, legend];
}

/** The error and the best guess about a person, against what is paid: one buys the other. */
async function priceCurve({ epsilons, solved, plan }, state, again, width) {
  const [scale, what, unit] = UNITS[state.want];
  const answers = again.series?.answers ?? 1;
  const errors = epsilons.map(({ error }) => scale * error);
  const [least, most] = [Math.min(...errors) / 1.2, Math.max(...errors) * 1.2];
  // Both stand on one scale of errors: a guess from 50 % at its foot to 100 % at its top.
  const place = (guess) => least * (most / least) ** (2 * guess - 1);
  const guesses = new Map([0.5, 0.6, 0.7, 0.8, 0.9, 1].map((guess) => [place(guess), percent(guess, 0)]));
  const said = (epsilon, error) =>
    `the error is ${short(scale * error)} ${unit}, and a guess about a person right at most ` +
    `${guessWords(answers * epsilon)} of the time`;
  const rows = epsilons.map(({ epsilon, label, error }) => ({
    epsilon,
    error: scale * error,
    guess: place(bestGuess(answers * epsilon)),
    said: `At epsilon ${short(epsilon)} (${label}) ${said(epsilon, error)}`,
  }));
  const now = `At epsilon ${Number(solved.epsilon.toPrecision(4))} ${said(solved.epsilon, plan.error)}`;
  const line = (y, stroke, dash) => ({ x: "epsilon", y, stroke, strokeWidth: 2.5, strokeDasharray: dash });
  const dot = (y, fill, symbol) => ({ x: "epsilon", y, r: 4, fill, symbol, stroke: "var(--paper)", title: "said" });
  const drawn = await figure((Plot) => ({
    width: Math.max(260, width),
    height: 300,
    marginLeft: 46,
    marginRight: 52,
    marginTop: 12,
    marginBottom: 44,
    x: { type: "log" },
    y: { type: "log", domain: [least, most] },
    symbol: { type: "identity" },
    ariaLabel: `Predicted error and the best guess about a person against epsilon. ${now}`,
    marks: [
      Plot.gridY({ stroke: "var(--line)", strokeOpacity: 1 }),
      Plot.axisX(
        TICKS.filter((tick) => tick >= rows[0].epsilon && tick <= rows.at(-1).epsilon),
        { color: "var(--muted)", text: String, label: "epsilon", labelOffset: 38 },
      ),
      Plot.axisY({ color: "var(--blue)", tickFormat: "~g", ticks: 5, label: null }),
      Plot.axisY([...guesses.keys()], {
        anchor: "right",
        color: "var(--orange)",
        text: (at) => guesses.get(at),
        label: null,
      }),
      Plot.ruleX([solved.epsilon], { stroke: "var(--ink)", strokeDasharray: "5 4" }),
      Plot.line(rows, line("error", "var(--blue)")),
      Plot.line(rows, line("guess", "var(--orange)", "7 4")),
      Plot.dot(rows, dot("error", "var(--blue)", "circle")),
      Plot.dot(rows, dot("guess", "var(--orange)", "square")),
    ],
  }));
  return [
    drawn,
    h(
      "ul",
      { class: "legend" },
      h("li", {}, stroke("var(--blue)"), `left: ${what} of the best mechanism, ${unit}`),
      h("li", {}, stroke("var(--orange)", "7 4"), "right: how often the best guess about a person is right"),
    ),
    h("p", { class: "price" }, `${now}${answers > 1 ? ` after all ${answers} answers` : ""}; 50 % before.`),
  ];
}

const stroke = (paint, dash, width = 2.5) =>
  h(
    "svg",
    { viewBox: "0 0 18 10", width: 18, height: 10, "aria-hidden": "true" },
    h("line", { x1: 0, x2: 18, y1: 5, y2: 5, stroke: paint, "stroke-width": width, "stroke-dasharray": dash }),
  );

const swatch = (at) => stroke(PALETTE[at], null, at ? 2 : 4);

/** The campaign file: to save, or to create at once. */
class Draft {
  constructor(keysChanged) {
    this.drafts = new Map();
    /** @type {Again | undefined} */
    this.again = undefined;
    this.counted = h("span", {}, "The number of keys above follows these.");
    const soon = new Date(Date.now() + 90 * 86_400_000).toISOString().slice(0, 10);
    this.name = h("input", { type: "text", id: "d-name", required: true, value: "" });
    this.owner = h("input", { type: "text", id: "d-owner", required: true });
    this.purpose = h("input", {
      type: "text",
      id: "d-purpose",
      required: true,
      placeholder: "learn which parts are used",
    });
    this.expires = h("input", { type: "date", id: "d-expires", required: true, value: soon });
    this.low = h("input", { type: "number", id: "d-low", step: "any", value: 0 });
    this.high = h("input", { type: "number", id: "d-high", step: "any", value: 100 });
    this.mechanism = h("select", { id: "d-mechanism" });
    this.isChosen = false;
    this.mechanism.addEventListener("change", () => {
      this.isChosen = true;
      this.warn();
    });
    this.warning = h("span", { class: "wrong", role: "status" });
    this.uploads = choice(
      "d-uploads",
      [
        ["token", "devices with a token"],
        ["open", "everybody"],
      ],
      "token",
    );
    this.close = h("input", { type: "number", id: "d-close", min: 1, placeholder: "by hand" });
    this.keys = h("textarea", { id: "d-keys", rows: 6, spellcheck: "false", placeholder: "maps\nmail\n\u2026" });
    this.said = h("div", { role: "alert" });
    this.keys.addEventListener("change", () => (this.planning = keysChanged(this.names().length)));
    const form = h(
      "form",
      {
        class: "draft",
        onsubmit: (event) => {
          event.preventDefault();
          this.create();
        },
      },
      h(
        "div",
        { class: "draft-grid" },
        field("Name", this.name),
        field("Owner", this.owner),
        field("Purpose", this.purpose),
        field("Ends on", this.expires),
        field("Least value", this.low),
        field("Largest value", this.high),
        field("Mechanism", this.mechanism),
        field("Who may send", this.uploads),
        field("Close at so many reports", this.close),
      ),
      field("Keys, one a line", this.keys, this.counted),
      h(
        "p",
        { class: "buttons" },
        h("button", { class: "primary" }, "Create it here"),
        h("button", { type: "button", onclick: () => this.save() }, "Save the file"),
        this.warning,
      ),
      this.said,
    );
    this.node = h(
      "section",
      { class: "card" },
      h("h2", {}, "The campaign"),
      h(
        "p",
        { class: "muted" },
        "Saved as a file it can be created later with ",
        h("code", {}, "keyveil campaign create"),
        ". Creating needs an operator's token.",
      ),
      form,
    );
  }

  names() {
    return [
      ...new Set(
        this.keys.value
          .split("\n")
          .map((line) => line.trim())
          .filter(Boolean),
      ),
    ];
  }

  /** The plan's ranking, then `auto`. The best of it is taken until a person takes another, which stays. */
  choose({ drafts, solved }) {
    const kept = this.isChosen ? this.mechanism.value : "";
    this.drafts = new Map(drafts.map((draft) => [draft.fields.mechanism, draft]));
    put(
      this.mechanism,
      drafts.map(({ label, fields }) => h("option", { value: fields.mechanism }, label)),
      !drafts.length && h("option", { value: "" }, "no plan yet"),
    );
    this.mechanism.value = this.drafts.has(kept) ? kept : (drafts[0]?.fields.mechanism ?? "");
    this.planned = solved.keys;
    this.fitCalendar();
    this.compareKeys();
    this.warn();
  }

  /** A series ends by its calendar: a day before that is no end, and a wave closes at no count. */
  fitCalendar() {
    const series = this.again?.series;
    this.close.disabled = Boolean(series);
    if (!series) return;
    const last = new Date(Date.now() + (series.waves + 1) * LONGEST[series.every] * 86_400_000);
    const day = last.toISOString().slice(0, 10);
    if (this.expires.value < day) this.expires.value = day;
  }

  /** Beside the button: what this mechanism will not tell. */
  warn() {
    const chosen = this.drafts.get(this.mechanism.value);
    put(
      this.warning,
      chosen && !chosen.tells_means && `${shown(this.mechanism.value)} as planned here tells no means.`,
    );
  }

  /** Whether the plan is one for as many keys as are named. */
  compareKeys() {
    const named = this.names().length;
    put(
      this.counted,
      named && named !== this.planned
        ? `${count(named)} ${named === 1 ? "key is" : "keys are"} named; the plan above is for ${count(this.planned)}.`
        : "The number of keys above follows these.",
    );
  }

  /** Says what is missing, if anything is; a plan for keys that were just named is waited for. */
  async isComplete() {
    await this.planning;
    const missing = !this.names().length
      ? "Name the keys first, one a line."
      : !this.drafts.size
        ? "There is no plan yet that a campaign could follow; see above."
        : null;
    if (missing) {
      put(this.said, h("p", { class: "wrong" }, missing));
      this.keys.focus();
    }
    return !missing;
  }

  fields() {
    const said = {
      name: this.name.value,
      owner: this.owner.value,
      purpose: this.purpose.value,
      expires: this.expires.value,
      keys: this.names(),
      value_range: [Number(this.low.value), Number(this.high.value)],
    };
    const { fields } = this.drafts.get(this.mechanism.value);
    const { series, share } = this.again ?? { series: null, share: 1 };
    if (!series) return { ...said, ...fields };
    // A plan is of one wave; a series' text tells of all its people.
    const users = fields.users && { users: Math.round(fields.users / share) };
    return { ...said, ...fields, ...users, series };
  }

  async save() {
    if (!(await this.isComplete())) return;
    download(new Blob([JSON.stringify(this.fields(), null, 2)], { type: "application/json" }), "campaign.json");
    put(this.said, h("p", {}, "campaign.json saved."));
  }

  async create() {
    if (!(await this.isComplete())) return;
    const campaign = this.fields();
    const closes = Number(this.close.value) > 0 && !campaign.series;
    const terms = { uploads: this.uploads.value, ...(closes ? { close_at_count: Number(this.close.value) } : {}) };
    try {
      const made = await post(campaign.series ? "/v1/series" : "/v1/campaigns", { campaign, terms });
      put(
        this.said,
        h(
          "section",
          { class: "made" },
          h("h3", { tabindex: -1 }, made.created ? "Created" : "It was there already"),
          h(
            "p",
            {},
            h(
              "a",
              { href: `#/${campaign.series ? "s" : "c"}/${made.id}` },
              "Go to ",
              nameNode(this.name.value || "the campaign"),
            ),
          ),
          made.device_token &&
            h("p", {}, "The devices' token, shown this once: ", h("code", { class: "long" }, made.device_token)),
        ),
      );
      say("The campaign was created");
      this.said.querySelector("h3").focus();
    } catch (error) {
      if (!(error instanceof Trouble)) throw error;
      put(this.said, h("p", { class: "wrong" }, `${error.title}. ${error.detail} ${error.remedy}`));
    }
  }
}
