import { get, token, Trouble } from "../api.js";
import { byId, h, nameNode, put, shown } from "../dom.js";
import { count, when } from "../format.js";
import { sparkline } from "../lines.js";
import { Trend } from "../trends.js";

// Keys whose changes a row tells.
const MOST_TOLD = 2;

/** All campaigns that the token is for. */
export async function draw({ content, query, remember, signal }) {
  if (!token.get()) {
    put(content, welcome());
    return;
  }
  const [{ campaigns }, { series }] = await Promise.all(
    ["/v1/campaigns", "/v1/series"].map((path) => get(path, { signal })),
  );
  // A series is as new as its newest wave, and stands before it.
  const newest = new Map(campaigns.filter((line) => line.series).map((line) => [line.series, line.created_at]));
  const begun = ({ id, created_at: created }) => newest.get(id) ?? created;
  const lines = [...series, ...campaigns.map((line) => ({ ...line, waves: 0 })).reverse()].sort(
    (a, b) => begun(b) - begun(a),
  );
  if (!lines.length) {
    put(
      content,
      h("h1", { tabindex: -1 }, "Campaigns"),
      h(
        "section",
        { class: "empty" },
        h("h2", {}, "No campaign yet"),
        h(
          "p",
          {},
          "A campaign is one question asked of many devices. Plan one to see, before anybody is asked, what " +
            "it will be able to say.",
        ),
        h("p", {}, h("a", { class: "button primary", href: "#/plan" }, "Plan a campaign")),
      ),
    );
    return;
  }
  const body = h("tbody");
  const search = h("input", {
    type: "search",
    id: "search",
    value: query.get("q") ?? "",
    placeholder: "Name, label or id",
    autocomplete: "off",
  });
  const only = h(
    "select",
    { id: "state" },
    ["all", "open", "finished", "expired", "damaged"].map((state) =>
      h("option", { value: state }, state === "all" ? "any state" : state),
    ),
  );
  only.value = query.get("state") ?? "all";
  const each = h("input", { type: "checkbox", id: "each" });
  each.checked = query.get("waves") === "each";
  // A series' row asks for its trend once, when it is first shown.
  const rows = new Map();
  const none = h("p", { class: "muted", hidden: true }, "None fits.");
  const show = () => {
    const wanted = search.value.trim().toLowerCase();
    const known = new Set(series.map(({ id }) => id));
    const fitting = lines.filter(
      ({ name, label, id, state, waves, series: of }) =>
        (only.value === "all" || (waves ? (STATES[state] ?? state) : state) === only.value) &&
        (each.checked || !known.has(of)) &&
        [name, label, id].some((text) => text.slice(0, 2000).toLowerCase().includes(wanted)),
    );
    put(body, fitting.slice(0, 500).map(rowOf));
    none.hidden = fitting.length > 0;
    remember({ q: wanted, state: only.value, waves: each.checked ? "each" : "" }, { state: "all" });
  };
  const rowOf = (line) => {
    if (!rows.has(line.id)) rows.set(line.id, line.waves ? seriesRow(line, signal) : row(line));
    return rows.get(line.id);
  };
  each.addEventListener("change", show);
  search.addEventListener("input", show);
  only.addEventListener("change", show);
  put(
    content,
    h(
      "div",
      { class: "title" },
      h("h1", { tabindex: -1 }, "Campaigns"),
      h("a", { class: "button primary", href: "#/plan" }, "Plan a campaign"),
    ),
    h(
      "div",
      { class: "controls" },
      h("p", {}, h("label", { for: "search" }, "Search"), search),
      h("p", {}, h("label", { for: "state" }, "State"), only),
      series.length > 0 && h("p", { class: "agree" }, each, h("label", { for: "each" }, "Waves one by one")),
    ),
    h(
      "div",
      { class: "scroll", role: "region", "aria-label": "Campaigns", tabindex: 0 },
      h(
        "table",
        { class: "campaign-list" },
        h(
          "thead",
          {},
          h(
            "tr",
            {},
            ["Campaign", "State", "Mechanism", "Reports", "Created"].map((title, at) =>
              h("th", { scope: "col", class: at === 3 ? "number" : null }, title),
            ),
          ),
        ),
        body,
      ),
    ),
    none,
  );
  show();
}

/** What a series' states are beside those of campaigns. */
const STATES = { waiting: "open", running: "open", paused: "open", ended: "finished" };

/** A series is one row: its line over time, and what changed last. */
function seriesRow(series, signal) {
  const { id, name, label, state, mechanism, every, waves, wave, reports, created_at: created } = series;
  const line = h("span", { class: "spark-line" });
  const said = h("span", { class: "muted block" });
  if (state !== "damaged" && reports > 0) tellTrend(id, line, said, signal);
  const title =
    state === "damaged"
      ? h("span", {}, "(cannot be read) ", h("code", {}, id.slice(0, 12)))
      : h("a", { href: `#/s/${id}` }, nameNode(name));
  const at = Math.min(wave, waves);
  return h(
    "tr",
    { class: "series" },
    h("th", { scope: "row" }, title, label && h("span", { class: "muted block" }, shown(label)), line, said),
    h(
      "td",
      {},
      h("span", { class: `badge ${state}` }, state),
      waves > 0 &&
        h("span", { class: "muted block" }, at ? `${every} ${at} of ${waves}` : `${waves} ${every}s to come`),
    ),
    h("td", {}, mechanism && h("code", {}, shown(mechanism))),
    h("td", { class: "number" }, count(reports)),
    h("td", { class: "nowrap" }, when(created)),
  );
}

async function tellTrend(id, line, said, signal) {
  try {
    const trend = await Trend.fetch(id, { signal, most: MOST_TOLD });
    if (signal.aborted || !trend.found) return;
    put(line, sparkline(trend, trend.byChange[0]), nameNode(trend.names[trend.byChange[0]]));
    put(said, trend.said);
  } catch (error) {
    if (signal.aborted) return;
    if (!(error instanceof Trouble)) throw error;
    put(said, error.title);
  }
}

function row({ id, name, label, state, mechanism, round, reports, created_at: created }) {
  const title =
    state === "damaged"
      ? h("span", {}, "(cannot be read) ", h("code", {}, id.slice(0, 12)))
      : h("a", { href: `#/c/${id}` }, nameNode(name));
  return h(
    "tr",
    {},
    h("th", { scope: "row" }, title, label && h("span", { class: "muted block" }, shown(label))),
    h(
      "td",
      {},
      h("span", { class: `badge ${state}` }, state),
      state === "open" && round > 1 && h("span", { class: "muted" }, ` round ${round}`),
    ),
    h("td", {}, mechanism && h("code", {}, shown(mechanism))),
    h("td", { class: "number" }, count(reports)),
    h("td", { class: "nowrap" }, when(created)),
  );
}

function welcome() {
  return h(
    "section",
    { class: "welcome" },
    h("h1", { tabindex: -1 }, "Which keys, how much, how sure"),
    h(
      "p",
      { class: "lead" },
      "keyveil learns how many people use what, and how much, without anyone handing over the truth.",
    ),
    h(
      "p",
      {},
      "Campaigns and results are for those with a token. ",
      h("code", {}, "keyveil serve"),
      " prints an admin token at its first start; ",
      h("code", {}, "keyveil token create analyst"),
      " makes one that can only read.",
    ),
    h(
      "p",
      { class: "buttons" },
      h("button", { type: "button", class: "primary", onclick: () => byId("who").click() }, "Enter a token"),
    ),
    h("p", {}, "Every campaign's privacy page is open to all: ask its owner for the address."),
  );
}
