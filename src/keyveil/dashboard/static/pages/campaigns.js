import { get, token } from "../api.js";
import { byId, h, nameNode, put, shown } from "../dom.js";
import { count, when } from "../format.js";

/** All campaigns that the token is for. */
export async function draw({ content, query, remember, signal }) {
  if (!token.get()) {
    put(content, welcome());
    return;
  }
  const { campaigns } = await get("/v1/campaigns", { signal });
  campaigns.reverse();
  if (!campaigns.length) {
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
  const none = h("p", { class: "muted", hidden: true }, "None fits.");
  const show = () => {
    const wanted = search.value.trim().toLowerCase();
    const fitting = campaigns.filter(
      ({ name, label, id, state }) =>
        (only.value === "all" || state === only.value) &&
        [name, label, id].some((text) => text.slice(0, 2000).toLowerCase().includes(wanted)),
    );
    put(body, fitting.slice(0, 500).map(row));
    none.hidden = fitting.length > 0;
    remember({ q: wanted, state: only.value }, { state: "all" });
  };
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
