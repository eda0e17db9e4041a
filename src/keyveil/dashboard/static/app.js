/** The frame: addresses become pages, one at a time; theme, token and connection belong to all of them. */

import { get, onConnection, token, Trouble } from "./api.js";
import { plotLibrary } from "./charts.js";
import { byId, h, nameNode, put, say } from "./dom.js";
import { asSentence } from "./format.js";
import * as acts from "./pages/acts.js";
import * as campaigns from "./pages/campaigns.js";
import * as compare from "./pages/compare.js";
import * as glass from "./pages/glass.js";
import * as health from "./pages/health.js";
import * as key from "./pages/key.js";
import * as plan from "./pages/plan.js";
import * as privacy from "./pages/privacy.js";
import * as progress from "./pages/progress.js";
import * as results from "./pages/results.js";
import * as price from "./pages/price.js";
import * as trend from "./pages/trend.js";
import * as waves from "./pages/waves.js";

const main = byId("main");
const nav = byId("nav");

/** @type {[RegExp, { draw: (page: any) => unknown }, string][]} */
const PAGES = [
  [/^\/$/, campaigns, "Campaigns"],
  [/^\/plan$/, plan, "Plan"],
  [/^\/acts$/, acts, "Log of acts"],
  [/^\/glass(?:\/(?<id>[0-9a-f]{64}))?$/, glass, "Take part"],
  [/^\/c\/(?<id>[0-9a-f]{64})$/, progress, "Progress"],
  [/^\/c\/(?<id>[0-9a-f]{64})\/results$/, results, "Results"],
  [/^\/c\/(?<id>[0-9a-f]{64})\/keys\/(?<place>\d{1,9})$/, key, "Key"],
  [/^\/c\/(?<id>[0-9a-f]{64})\/compare$/, compare, "Compare"],
  [/^\/c\/(?<id>[0-9a-f]{64})\/privacy$/, privacy, "Privacy"],
  [/^\/c\/(?<id>[0-9a-f]{64})\/health$/, health, "Health"],
  [/^\/s\/(?<series>[0-9a-f]{64})$/, trend, "Trend"],
  [/^\/s\/(?<series>[0-9a-f]{64})\/waves$/, waves, "Waves"],
  [/^\/s\/(?<series>[0-9a-f]{64})\/privacy$/, price, "Privacy"],
];
const OF_CAMPAIGN = [
  ["", "Progress"],
  ["/results", "Results"],
  ["/compare", "Compare"],
  ["/privacy", "Privacy"],
  ["/health", "Health"],
];
const OF_SERIES = [
  ["", "Trend"],
  ["/waves", "Waves"],
  ["/privacy", "Privacy"],
];

// --- addresses ---

function address() {
  const [path, query = ""] = location.hash.slice(1).split("?");
  return { path: path || "/", query: new URLSearchParams(query) };
}

/** Put parameters into the address without leaving the page; what is empty or the default is left out. */
function remember(values, defaults = {}) {
  const { path, query } = address();
  for (const [name, value] of Object.entries(values)) {
    if (value === "" || value === null || value === undefined || String(value) === String(defaults[name] ?? "")) {
      query.delete(name);
    } else query.set(name, value);
  }
  const text = query.toString();
  history.replaceState(null, "", `#${path}${text ? `?${text}` : ""}`);
}

/** A token in the fragment never reaches a server or its log; it is taken out of the address at once. */
function takeTokenFromAddress() {
  const given = /^#token=(kv-[0-9a-f]{16}-[\w-]{43})(?:&to=(\/[^&]*))?$/.exec(location.hash);
  if (!given) return;
  token.set(given[1]);
  history.replaceState(null, "", `#${given[2] ?? "/"}`);
}

// --- pages ---

let leaving = new AbortController();

async function show() {
  takeTokenFromAddress();
  leaving.abort();
  const here = (leaving = new AbortController());
  const { path, query } = address();
  const [pattern, module, title] = PAGES.find(([one]) => one.test(path)) ?? [];
  drawNav(path);
  offerActs();
  if (!pattern || !module || !title) {
    settle("No such page", [
      h("h1", { tabindex: -1 }, "No such page"),
      h("p", {}, "The address leads nowhere. ", h("a", { href: "#/" }, "See the campaigns.")),
    ]);
    return;
  }
  const params = { ...pattern.exec(path)?.groups };
  const content = h("div", { class: "page" });
  put(main, content);
  main.setAttribute("aria-busy", "true");
  document.title = `${title} · keyveil`;
  const page = {
    content,
    params,
    query,
    remember,
    signal: here.signal,
    redraw: show,
    about: null,
    view: null,
    trouble: (error, again = show) => put(content, head, troubleNode(error, again, head ? "h2" : "h1")),
  };
  let head = null;
  try {
    if (params.id && module !== glass) {
      page.about = await get(`/v1/campaigns/${params.id}/about`, { signal: here.signal });
      content.append((head = campaignHead(page.about, path)));
    }
    if (params.series) {
      page.view = await get(`/v1/series/${params.series}`, { signal: here.signal });
      content.append((head = seriesHead(page.view, path)));
    }
    if (here.signal.aborted) return;
    await module.draw(page);
    if (here.signal.aborted) return;
    settle(title);
  } catch (error) {
    if (here.signal.aborted) return;
    if (!(error instanceof Trouble)) console.error(error);
    page.trouble(error);
    settle(title);
    if (error.isOffline) retryWhenBack(here.signal);
  }
}

function settle(title, nodes) {
  if (nodes) put(main, nodes);
  main.removeAttribute("aria-busy");
  say(`${title} shown`);
}

function retryWhenBack(signal) {
  const timer = setInterval(async () => {
    if (signal.aborted) return clearInterval(timer);
    try {
      await get("/healthz", { signal });
      clearInterval(timer);
      if (!signal.aborted) show();
    } catch {
      // Still away: the next turn asks again.
    }
  }, 1500);
  signal.addEventListener("abort", () => clearInterval(timer));
}

const tabsOf = (pages, base, path) =>
  pages.map(([end, title]) =>
    h("a", { href: base + end, "aria-current": `#${path}` === base + end ? "page" : null }, title),
  );

function campaignHead(said, path) {
  const tabs = tabsOf(OF_CAMPAIGN, `#/c/${said.id}`, path);
  if (said.uploads === "open" && said.state === "open") tabs.push(h("a", { href: `#/glass/${said.id}` }, "Take part"));
  document.title = `${said.name.slice(0, 60)} · keyveil`;
  return h(
    "header",
    { class: "campaign-head" },
    h(
      "p",
      { class: "crumbs" },
      h("a", { href: "#/" }, "Campaigns"),
      " / ",
      said.series && [h("a", { href: `#/s/${said.series}` }, "the whole series"), " / ", `wave ${said.wave}`],
    ),
    h("h1", { tabindex: -1 }, nameNode(said.name, "bdi"), " ", h("span", { class: `badge ${said.state}` }, said.state)),
    said.purpose && h("p", { class: "muted" }, "Asked by ", nameNode(said.owner), " to ", nameNode(said.purpose), "."),
    h("nav", { class: "tabs", "aria-label": "This campaign" }, tabs),
  );
}

/** A series' heading, by its public text. */
function seriesHead(view, path) {
  const { name, owner, purpose, series } = JSON.parse(view.campaign);
  document.title = `${name.slice(0, 60)} · keyveil`;
  const kind = { day: "daily", week: "weekly", month: "monthly" }[series.every];
  return h(
    "header",
    { class: "campaign-head" },
    h("p", { class: "crumbs" }, h("a", { href: "#/" }, "Campaigns"), " / "),
    h("h1", { tabindex: -1 }, nameNode(name), " ", h("span", { class: `badge ${view.state}` }, view.state)),
    h(
      "p",
      { class: "muted" },
      `Asked ${kind}, in ${series.waves} waves`,
      view.wave && `; wave ${view.wave.number} is open`,
      purpose && [", by ", nameNode(owner ?? ""), " to ", nameNode(purpose)],
      ".",
    ),
    h("nav", { class: "tabs", "aria-label": "This series" }, tabsOf(OF_SERIES, `#/s/${view.id}`, path)),
  );
}

/** What went wrong, and what to do; below a campaign's own heading where there is one. */
function troubleNode(error, again, heading) {
  if (!(error instanceof Trouble)) {
    return h(
      "section",
      { class: "trouble", role: "alert" },
      h(heading, { tabindex: -1 }, "This page has a fault"),
      h("p", {}, "It is the page's, not yours. Reload; if it stays, tell the makers what you did."),
      h("p", {}, h("code", {}, String(error?.message ?? error).slice(0, 300))),
      h("button", { type: "button", onclick: again }, "Try again"),
    );
  }
  const isRole = error.status === 403;
  // What a program should do, to send a header, is nothing that a person can do.
  const isMissing = error.code === "no-token";
  return h(
    "section",
    { class: "trouble", role: "alert" },
    h(heading, { tabindex: -1 }, error.title),
    !isMissing && error.detail && h("p", {}, asSentence(error.detail)),
    !isMissing && error.remedy && h("p", {}, h("strong", {}, "What to do: "), error.remedy),
    (error.needsToken || isRole) &&
      h(
        "p",
        {},
        "This page needs an analyst's, an operator's or an admin's token. The collector prints an admin " +
          "token at its first start; ",
        h("code", {}, "keyveil token create analyst"),
        " makes others.",
      ),
    h(
      "p",
      { class: "buttons" },
      (error.needsToken || isRole) &&
        h(
          "button",
          { type: "button", class: "primary", onclick: askToken },
          isRole ? "Enter another token" : "Enter a token",
        ),
      h("button", { type: "button", onclick: again }, "Try again"),
      error.status === 404 && h("a", { class: "button", href: "#/" }, "See the campaigns"),
    ),
  );
}

// The token that was asked about, and whether it reads the log of acts.
const reader = { token: null, isOne: false };

/** The log of acts is offered to those whose token reads it, and to nobody else. */
async function offerActs() {
  const mine = token.get();
  if (mine === reader.token) return;
  Object.assign(reader, { token: mine, isOne: false });
  try {
    // There is no act so late: what is asked is whether one may ask.
    if (mine) await get(`/v1/acts?after=${Number.MAX_SAFE_INTEGER}`);
    if (mine === token.get()) reader.isOne = Boolean(mine);
  } catch (error) {
    if (!(error instanceof Trouble)) throw error;
    if (error.isOffline) reader.token = null;
  }
  drawNav(address().path);
}

function drawNav(path) {
  const links = [
    ["/", "Campaigns"],
    ["/plan", "Plan"],
    ["/glass", "Take part"],
    ...(reader.isOne ? [["/acts", "Log"]] : []),
  ];
  put(
    nav,
    links.map(([to, title]) =>
      h(
        "a",
        {
          href: `#${to}`,
          "aria-current":
            path === to || (to === "/glass" && path.startsWith(to)) || (to === "/" && /^\/[cs]\//.test(path))
              ? "page"
              : null,
        },
        title,
      ),
    ),
  );
}

// --- token ---

const who = byId("who");

function drawWho() {
  put(who, token.get() ? "Token: set" : "Enter token");
}

function askToken() {
  const field = h("input", {
    type: "password",
    id: "token",
    autocomplete: "off",
    spellcheck: "false",
    class: "wide",
    placeholder: "kv-\u2026",
  });
  const wrong = h("p", { class: "wrong", role: "alert" });
  const dialog = h(
    "dialog",
    { "aria-labelledby": "token-title" },
    h(
      "form",
      {
        onsubmit: (event) => {
          event.preventDefault();
          const given = field.value.trim();
          if (given && !/^kv-[0-9a-f]{16}-[\w-]{43}$/.test(given)) {
            put(wrong, "This is no token: it begins with kv- and has 63 letters.");
            return;
          }
          token.set(given);
          dialog.close();
          drawWho();
          show();
        },
      },
      h("h2", { id: "token-title" }, "Token"),
      h("p", {}, "An analyst's token reads results; an operator's also creates and closes."),
      h("p", {}, h("label", { for: "token" }, "Token"), field),
      wrong,
      h(
        "p",
        { class: "muted" },
        "It is kept for this tab only (sessionStorage): closing the tab forgets it, other tabs and later " +
          "visitors do not have it, and no cookie carries it to other sites' requests.",
      ),
      h(
        "p",
        { class: "buttons" },
        h("button", { class: "primary" }, "Use it"),
        token.get() &&
          h(
            "button",
            {
              type: "button",
              onclick: () => {
                field.value = "";
                token.set("");
                dialog.close();
                drawWho();
                show();
              },
            },
            "Forget it",
          ),
        h("button", { type: "button", onclick: () => dialog.close() }, "Cancel"),
      ),
    ),
  );
  dialog.addEventListener("close", () => {
    dialog.remove();
    who.focus();
  });
  document.body.append(dialog);
  dialog.showModal();
}

who.addEventListener("click", askToken);

// --- theme ---

const theme = byId("theme");
const system = matchMedia("(prefers-color-scheme: dark)");
const isDark = () => (document.documentElement.dataset.theme ?? (system.matches ? "dark" : "light")) === "dark";

function drawTheme() {
  put(theme, isDark() ? "Light" : "Dark");
  theme.setAttribute("aria-label", `Use the ${isDark() ? "light" : "dark"} theme`);
}

theme.addEventListener("click", () => {
  const next = isDark() ? "light" : "dark";
  document.documentElement.dataset.theme = next;
  localStorage.setItem("keyveil-theme", next);
  drawTheme();
  dispatchEvent(new Event("theme"));
});
system.addEventListener("change", () => {
  drawTheme();
  dispatchEvent(new Event("theme"));
});

// --- connection ---

onConnection((is) => {
  const bar = byId("connection");
  bar.classList.toggle("lost", !is);
  put(
    bar,
    is ? "" : "No answer from the collector. What is shown may be old; this page goes on by itself when it is back.",
  );
  if (is) say("The collector answers again");
});

document.querySelector(".skip")?.addEventListener("click", (event) => {
  event.preventDefault();
  main.focus();
});
addEventListener("hashchange", async () => {
  await show();
  // Who moved by keyboard or screen reader goes on reading at the top of the new page.
  main.querySelector("h1")?.focus({ preventScroll: true });
  scrollTo(0, 0);
});

drawTheme();
await show();
drawWho();
// What the next page will need is fetched while nobody waits, so that it is there if the collector is not.
setTimeout(() => plotLibrary().catch(() => {}), 500);
