import { get, poll, post, text } from "../api.js";
import { h, nameNode, put } from "../dom.js";
import { Found } from "../found.js";
import { count, digitsFor, percent, value } from "../format.js";
import { field, refusalAlarm, refusals, tile, tiles } from "../parts.js";

/** What is refused, and how far those who lie could move each result. */
export async function draw({ content, params: { id }, query, remember, signal }) {
  const ready = tile("Collector");
  const waiting = tile("Uploads waiting");
  const lost = tile("Reports refused");
  const refused = tile("Requests refused");
  const warning = h("div");
  const ofReports = h("div");
  const ofRequests = h("div");
  const here = h("div");
  content.append(
    warning,
    tiles(ready, waiting, lost, refused),
    h("section", {}, h("h2", {}, "Reports to this campaign, refused by reason"), here),
    h(
      "div",
      { class: "pair" },
      h("section", {}, h("h2", {}, "All campaigns: single reports"), ofReports),
      h("section", {}, h("h2", {}, "All campaigns: whole requests"), ofRequests),
    ),
    h(
      "p",
      { class: "muted" },
      "Counted since the collector process started. Few refusals are normal: devices with an old clock or an " +
        "old round. Many of one kind at once are a fault or an attack.",
    ),
  );
  const look = async (turn) => {
    const [page, state, progress] = await Promise.all([
      // Counters are for administrators and monitors; a page without them says less, and nothing false.
      text("/metrics", { signal: turn }).catch(ifForbidden),
      readiness(turn),
      get(`/v1/campaigns/${id}/progress`, { signal: turn }),
    ]);
    return {
      reports: page && series(page, "keyveil_reports_total", "status"),
      problems: page && series(page, "keyveil_refused_requests_total", "code"),
      state,
      progress,
    };
  };
  const show = ({ reports, problems, state, progress }) => {
    ready.show(state?.ready ? "ready" : "not ready", storeWords(state));
    waiting.show(state ? String(state.waiting_uploads) : "?", "acknowledged only once stored");
    const { accepted: _, duplicate: repeats, ...others } = progress.statuses;
    const total = (counts) => Object.values(counts).reduce((sum, n) => sum + n, 0);
    lost.show(count(total(others)), repeats ? `and ${count(repeats)} repeats, which is no fault` : "of this campaign");
    refused.show(problems ? count(total(problems)) : "?", problems ? "whole, of all campaigns" : UNREAD);
    put(warning, refusalAlarm(progress.statuses, progress.refused_at));
    put(here, refusals(progress.statuses));
    put(ofReports, reports ? refusals(reports) : h("p", { class: "muted" }, UNREAD));
    put(ofRequests, problems ? refusals(problems, {}) : h("p", { class: "muted" }, UNREAD));
  };
  const first = await look(signal);
  show(first);
  const stop = poll(look, { every: 3000, show, fail: () => {} });
  signal.addEventListener("abort", stop);
  content.append(noise(id, first.progress.rounds, signal), await liars(id, query, remember, signal));
}

const UNREAD = "Only administrators and monitors may read this.";

/** Nothing, where the answer is that this token may not ask. */
function ifForbidden(error) {
  if (error.status !== 403 && error.status !== 401) throw error;
  return null;
}

/** What the collector says of itself, which it says also where it is not ready; null where it says nothing. */
async function readiness(signal) {
  try {
    return await get("/readyz", { signal });
  } catch (error) {
    if (error.isOffline || signal.aborted) throw error;
    return "damaged" in (error.said ?? {}) ? error.said : null;
  }
}

/** The store in a few words: what fails, what is damaged, or that nothing was found to be. */
function storeWords(state) {
  if (!state) return "it does not say why";
  if (state.failing) return state.failing;
  if (state.damaged.length) return `${count(state.damaged.length)} campaigns damaged`;
  return `${state.store} store, no damage met since the start`;
}

/** Prometheus text: the counts of one metric by one label. */
export function series(page, name, label) {
  const counts = {};
  for (const line of page.split("\n")) {
    const found = new RegExp(`^${name}\\{${label}="([^"]*)"\\} (\\d+)$`).exec(line);
    if (found) counts[found[1]] = Number(found[2]);
  }
  return counts;
}

/** Whether stored reports look like the noise that devices make, tested when somebody asks. */
function noise(id, rounds, signal) {
  const result = h("div", { role: "status" });
  const test = async (number) => {
    put(result, h("p", { class: "muted" }, "Testing\u2026"));
    try {
      put(result, verdict(await post(`/v1/campaigns/${id}/rounds/${number}/examine`, undefined, { signal })));
    } catch (error) {
      if (!signal.aborted) put(result, h("p", {}, `${error.title}. ${error.detail} ${error.remedy}`));
    }
  };
  const buttons = rounds.map(({ number }) =>
    h(
      "button",
      { type: "button", onclick: () => test(number) },
      rounds.length > 1 ? `Test round ${number}` : "Test the reports",
    ),
  );
  return h(
    "section",
    {},
    h("h2", {}, "Is it noise?"),
    h(
      "p",
      {},
      "Honest reports follow laws that are known exactly, whatever people hold: how many keys a report " +
        "names, which are named together, which index or hash it carries. Crude attacks break them.",
    ),
    h("div", { class: "controls" }, buttons),
    result,
  );
}

function verdict({ reports, alarm, p, suspects, tests }) {
  if (!tests.length) return h("p", {}, `${count(reports)} reports are too few to tell.`);
  const often = p < 1e-9 ? "never, in practice" : `in one collection of ${count(Math.round(1 / p))}`;
  const chance = `${count(reports)} reports, ${tests.length} tests; honest devices look as odd ${often}.`;
  if (!alarm) return h("p", {}, h("strong", {}, "No attack that can be seen. "), chance);
  const { what } = tests[0];
  return h(
    "div",
    { class: "trouble" },
    h("p", {}, h("strong", {}, "This is not honest noise. "), chance),
    h(
      "p",
      {},
      `${what[0].toUpperCase()}${what.slice(1)}. `,
      suspects.slice(0, 10).flatMap((key, at) => [at ? ", " : "Keys: ", nameNode(key)]),
    ),
  );
}

async function liars(id, query, remember, signal) {
  const section = h("section", {}, h("h2", {}, "If some devices lie"));
  let found;
  try {
    found = await Found.fetch(id, "none", signal);
  } catch (error) {
    if (signal.aborted || error.isOffline || error.needsToken) throw error;
    section.append(h("p", {}, `${error.title}. ${error.detail} ${error.remedy}`));
    return section;
  }
  if (!found.users) {
    section.append(h("p", {}, "No report yet, so there is no result to move."));
    return section;
  }
  if (!found.hasHostile) {
    section.append(h("p", {}, "For this mechanism no bound is known here."));
    return section;
  }
  const share = h("input", {
    type: "range",
    id: "share",
    min: 0.1,
    max: 10,
    step: 0.1,
    value: query.get("liars") ?? "1",
  });
  const said = h("output", { for: "share" });
  const body = h("tbody");
  const digits = digitsFor(
    100 * Math.min(...[...found.order.slice(0, 30)].map((code) => (found.high[code] - found.low[code]) / 2)),
  );
  const meanDigits = digitsFor((found.value_range[1] - found.value_range[0]) / 50);
  const row = (reach, code, at) =>
    h(
      "tr",
      { class: found.isNoise(code) ? "noise" : null },
      h("th", { scope: "row" }, nameNode(found.names[code])),
      h("td", { class: "number strong" }, percent(found.columns.frequency[code], digits)),
      h("td", { class: "nowrap" }, `${percent(found.low[code], digits)} to ${percent(found.high[code], digits)}`),
      h(
        "td",
        { class: "nowrap" },
        `${percent(reach.frequency_low[at], digits)} to ${percent(reach.frequency_high[at], digits)}`,
      ),
      found.hasMeans && h("td", { class: "number strong" }, value(found.shownOf("mean", code), meanDigits)),
      found.hasMeans &&
        h(
          "td",
          { class: "nowrap" },
          found.hasMean(code)
            ? `${value(found.columns.mean_low[code], meanDigits)} to ` +
                `${value(found.columns.mean_high[code], meanDigits)}`
            : "anything",
        ),
      found.hasMeans &&
        h(
          "td",
          { class: "nowrap" },
          reach.mean_low[at] === null
            ? "anything"
            : `${value(reach.mean_low[at], meanDigits)} to ${value(reach.mean_high[at], meanDigits)}`,
        ),
    );
  let asking = new AbortController();
  const ask = async () => {
    asking.abort();
    const mine = (asking = new AbortController());
    put(said, `${share.value} % of devices`);
    remember({ liars: share.value }, { liars: "1" });
    try {
      const reach = await get(`/v1/campaigns/${id}/hostile?per_mille=${Math.round(10 * share.value)}`, {
        signal: AbortSignal.any([signal, mine.signal]),
      });
      put(
        body,
        reach.codes.map((code, at) => row(reach, code, at)),
      );
    } catch (error) {
      if (signal.aborted || mine.signal.aborted) return;
      put(said, `${error.title}. ${error.remedy}`);
    }
  };
  share.addEventListener("input", ask);
  const columns = [
    "Key",
    "People",
    "Noise alone, 95 %",
    "Liars could make it",
    ...(found.hasMeans ? ["Mean", "Noise alone, 95 %", "Liars could make it"] : []),
  ];
  section.append(
    h(
      "p",
      {},
      "Noise hides a person, so it also hides a liar. A device that sends whatever report it likes moves a " +
        "number by at most the largest weight that one report has in the estimate; this is that bound, " +
        "exactly, for the ",
      h("strong", {}, "unprocessed"),
      " numbers. Liars who act like honest people holding something else cannot be found, only bounded.",
    ),
    h("div", { class: "controls" }, field("Devices that lie", share), said),
    h(
      "div",
      { class: "scroll", role: "region", "aria-label": "What liars could do", tabindex: 0 },
      h(
        "table",
        { class: "keys" },
        h(
          "thead",
          {},
          h(
            "tr",
            {},
            columns.map((title, at) => h("th", { scope: "col", class: [1, 4].includes(at) ? "number" : null }, title)),
          ),
        ),
        body,
      ),
    ),
    h(
      "p",
      { class: "muted" },
      "The most frequent keys. Of several rounds, all liars join the one that tells of the key.",
    ),
  );
  await ask();
  return section;
}
