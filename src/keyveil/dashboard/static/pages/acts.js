import { get, poll } from "../api.js";
import { h, nameNode, put, shown } from "../dom.js";
import { count, when } from "../format.js";
import { choice, field } from "../parts.js";

// The collector sends so many acts at once, and the page shows so many more at once.
const SENT = 1000;
const SHOWN = 100;
// Who acts where no token does.
const NOBODY = "the collector itself";

/** Who created, closed, revoked what, and when: the newest first. */
export async function draw({ content, query, remember, signal }) {
  const [acts, { tokens }, { campaigns }, { series }] = await Promise.all([
    read(0, signal),
    ...["/v1/tokens", "/v1/campaigns", "/v1/series"].map((path) => get(path, { signal })),
  ]);
  const labels = new Map(tokens.map(({ id, role, label }) => [id, label || role]));
  const places = new Map([
    ...campaigns.map(({ id, name }) => [id, { name, href: `#/c/${id}` }]),
    ...series.map(({ id, name }) => [id, { name, href: `#/s/${id}` }]),
  ]);
  const search = h("input", {
    type: "search",
    id: "search",
    value: query.get("q") ?? "",
    placeholder: "Name, token, detail",
    autocomplete: "off",
  });
  const kinds = [...new Set(acts.map(({ act }) => act))].sort();
  const only = choice("act", [["all", "any act"], ...kinds.map((act) => [act, words(act)])], query.get("act") ?? "all");
  const body = h("tbody");
  const status = h("p", { class: "muted", role: "status" });
  const more = h("button", { type: "button" }, `Show ${SHOWN} more`);
  const pager = h("div", { class: "pager" });
  let most = SHOWN;
  const show = () => {
    const wanted = search.value.trim().toLowerCase();
    const fitting = acts
      .filter(({ act, token, campaign, detail }) => {
        const said = [words(act), token, labels.get(token), campaign, places.get(campaign)?.name, detail];
        return (only.value === "all" || act === only.value) && said.join("\n").toLowerCase().includes(wanted);
      })
      .reverse();
    put(
      body,
      fitting.slice(0, most).map((act) => row(act, labels, places)),
    );
    const newest = `the newest ${count(Math.min(most, fitting.length))} shown`;
    put(status, fitting.length ? `${count(fitting.length)} of ${count(acts.length)} acts; ${newest}.` : "None fits.");
    put(pager, fitting.length > most && more);
    remember({ q: wanted, act: only.value }, { act: "all" });
  };
  search.addEventListener("input", show);
  only.addEventListener("change", show);
  more.addEventListener("click", () => {
    most += SHOWN;
    show();
  });
  content.append(
    h("h1", { tabindex: -1 }, "Log of acts"),
    h(
      "p",
      { class: "muted" },
      "Every administrative act on this collector, written in the transaction that did it, and never changed.",
    ),
    h("div", { class: "controls" }, field("Search", search), field("Act", only)),
    status,
    h(
      "div",
      { class: "scroll", role: "region", "aria-label": "Acts", tabindex: 0 },
      h(
        "table",
        { class: "acts" },
        h(
          "thead",
          {},
          h(
            "tr",
            {},
            ["When", "Act", "Campaign or series", "Who", "Detail"].map((title) => h("th", { scope: "col" }, title)),
          ),
        ),
        body,
      ),
    ),
    pager,
  );
  show();
  const stop = poll((turn) => read(acts.at(-1)?.no ?? 0, turn), {
    every: 5000,
    show: (newer) => {
      if (!newer.length) return;
      acts.push(...newer);
      show();
    },
    fail: () => {},
  });
  signal.addEventListener("abort", stop);
}

/** The acts after a place, the oldest first. */
async function read(after, signal) {
  const found = [];
  for (;;) {
    const { acts } = await get(`/v1/acts?after=${found.at(-1)?.no ?? after}`, { signal });
    found.push(...acts);
    if (acts.length < SENT) return found;
  }
}

const words = (act) => act.replaceAll("-", " ");

function row({ at, token, act, campaign, detail }, labels, places) {
  const place = places.get(campaign);
  const label = labels.get(token);
  return h(
    "tr",
    {},
    h("th", { scope: "row", class: "narrow nowrap" }, when(at)),
    h("td", { class: "nowrap" }, words(act)),
    h(
      "td",
      { class: "words-in" },
      place
        ? h("a", { href: place.href }, nameNode(place.name))
        : campaign && h("code", { title: campaign }, campaign.slice(0, 12)),
    ),
    h(
      "td",
      { class: "words-in" },
      token ? [h("code", {}, token), label && h("span", { class: "muted block" }, shown(label))] : NOBODY,
    ),
    h("td", { class: "words-in muted" }, shown(act.endsWith("-created") ? termsOf(detail) : detail)),
  );
}

/** What a campaign or series was created with, in place of its JSON. */
const termsOf = (detail) =>
  Object.entries(JSON.parse(detail))
    .filter(([, value]) => value !== null && value !== false)
    .map(([name, value]) => `${name.replaceAll("_", " ")} ${value}`)
    .join(", ");
