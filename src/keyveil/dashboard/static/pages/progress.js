import { get, poll, post } from "../api.js";
import { liveLine } from "../charts.js";
import { h, nameNode, put, say } from "../dom.js";
import { count, short, span, when } from "../format.js";
import { confirm, field, refusals, tile, tiles } from "../parts.js";

const KEPT = 2000;
// The rate of reports is that of the last half minute.
const WINDOW = 30;

/** How far a campaign is, live. */
export async function draw({ content, params: { id }, query, remember, signal, trouble }) {
  const accepted = tile("Reports counted");
  const refused = tile("Refused");
  const sure = tile("A rare key is known to");
  const left = tile("Time to target");
  const target = h("input", { type: "number", id: "target", min: 0.01, max: 50, step: "any", value: query.get("target") ?? "", placeholder: "such as 1" });
  const reportsLine = liveLine({ label: "Reports counted over time", format: (n) => count(n), signal });
  const errorLine = liveLine({ label: "Half-width of a rare key's 95 % interval over time, in percent", format: (n) => `\u00b1${n} %`, signal });
  const errorBox = h("section", { class: "card" }, h("h2", {}, "The error bar shrinks"), errorLine,
    h("p", { class: "muted" }, "Half the width of the 95 % interval of a key that hardly anybody holds; frequent keys are a little less sure."));
  const rounds = h("tbody");
  const reasons = h("div");
  const note = h("p", { class: "note", role: "status" });
  const times = [];
  const totals = [];
  let now;

  const wanted = () => (Number(target.value) > 0 ? Number(target.value) / 100 : null);
  const halfWidth = (n) => (now.noise === null || n < 1 ? null : now.z * Math.sqrt(now.noise / n));
  const needed = () => {
    if (now.close_at_count) return now.close_at_count;
    return wanted() && now.noise !== null ? Math.ceil(now.noise * (now.z / wanted()) ** 2) : null;
  };

  const show = (said) => {
    const before = now;
    now = said;
    const open = said.rounds.find((round) => round.closed_at === null);
    if (!times.length) {
      times.push(Math.min(said.rounds[0].opened_at, said.now - 1));
      totals.push(0);
    }
    if (said.now > times.at(-1)) {
      times.push(said.now);
      totals.push(said.reports);
    }
    if (times.length > KEPT) {
      times.splice(1, 1);
      totals.splice(1, 1);
    }
    drawTiles(open);
    drawRounds(said.rounds);
    put(reasons, refusals(said.statuses));
    if (before && before.reports === 0 && said.reports > 0) say("The first reports are in");
    if (before && before.state !== said.state) say(`The campaign is ${said.state}`);
    describe(open);
  };

  const rate = () => {
    const last = times.length - 1;
    let first = last;
    while (first > 1 && times[last] - times[first] < WINDOW) first--;
    return last > first ? (totals[last] - totals[first]) / (times[last] - times[first]) : 0;
  };

  const drawTiles = (open) => {
    const lost = Object.entries(now.statuses).reduce((sum, [status, n]) => sum + (status === "accepted" || status === "duplicate" ? 0 : n), 0);
    const speed = rate();
    accepted.show(count(now.reports), open ? (speed >= 0.05 ? `${speed < 10 ? speed.toFixed(1) : count(Math.round(speed))} a second` : "none in the last half minute") : "no more are taken");
    refused.show(count(lost), now.statuses.duplicate ? `and ${count(now.statuses.duplicate)} repeats, which is no fault` : "since the collector started");
    const half = halfWidth(now.reports);
    sure.show(now.noise === null ? "at the end" : half === null ? "?" : `\u00b1${short(100 * half)} %`, now.noise === null ? "rounds differ in what they ask" : "95 % interval");
    const goal = needed();
    const closes = open?.closes_at;
    if (!open) left.show("done", "the last round is closed");
    else if (goal && now.reports >= goal) left.show("reached", `${count(goal)} reports`);
    else if (goal) left.show(speed > 0 ? span((goal - now.reports) / speed) : "waiting", `${count(goal)} reports ${now.close_at_count ? "close the round" : `for \u00b1${target.value} %`}`);
    else if (closes) left.show(span(closes - now.now), `closes ${when(closes)}`);
    else left.show("no target", "set one below");
    reportsLine.show(times, totals, goal && goal < 4 * Math.max(now.reports, 1) ? goal : null);
    if (now.noise !== null) {
      const seen = times.map((time, at) => [time, halfWidth(totals[at])]).filter(([, half]) => half !== null);
      errorLine.show(seen.map(([time]) => time), seen.map(([, half]) => 100 * half), wanted() ? 100 * wanted() : null);
    }
  };

  const drawRounds = (all) => {
    const rows = all.map((round) => h("tr", {},
      h("th", { scope: "row" }, round.number), h("td", {}, nameNode(round.purpose)), h("td", { class: "number" }, count(round.reports)),
      h("td", {}, round.closed_at === null ? h("span", { class: "badge open" }, "open") : h("span", { class: "badge finished" }, "closed")),
      h("td", { class: "nowrap" }, when(round.opened_at)),
      h("td", {}, round.closed_at === null ? (round.closes_at ? `closes ${when(round.closes_at)}` : "") : `${when(round.closed_at)}, ${round.why}`),
      h("td", {}, round.closed_at === null && now.state === "open" && h("button", { type: "button", onclick: () => close(round) }, `Close round ${round.number}`))));
    // Rows are replaced only when they changed, so that a focused button stays where it is.
    const text = JSON.stringify(all.map(({ number, reports, closed_at }) => [number, reports, closed_at]));
    if (rounds.dataset.text === text) return;
    const hadFocus = rounds.contains(document.activeElement);
    rounds.dataset.text = text;
    put(rounds, rows);
    if (hadFocus) rounds.querySelector("button")?.focus();
  };

  const describe = (open) => {
    if (now.state === "expired") put(note, "The campaign has expired: nothing more is counted.");
    else if (!open) put(note, "All rounds are closed. ", h("a", { href: `#/c/${id}/results` }, "See the results"), ".");
    else if (now.reports === 0) put(note, "No report yet. Devices send to this campaign's address; to try it: ", h("code", {}, `keyveil send ${location.origin}/v1/campaigns/${id} PAIRS.csv`));
    else if (now.reports === 1) put(note, "One report: it is noise and one person's answer, and tells nothing about anybody.");
    else if (open.number > 1 || now.noise === null) put(note, `Round ${open.number} is open: ${open.purpose}. There are no results before the last round is closed.`);
    else put(note, "Reports are noised, so looking early costs nobody anything. ", h("a", { href: `#/c/${id}/results` }, "See what is known so far"), ".");
  };

  const close = async (round) => {
    const yes = await confirm(`Close round ${round.number}?`, `No more reports are taken to it, and this cannot be undone. It has ${count(now.rounds.find((one) => one.number === round.number).reports)} reports.`, "Close it");
    if (!yes) return;
    try {
      const closed = await post(`/v1/campaigns/${id}/rounds/${round.number}/close`);
      show(await get(`/v1/campaigns/${id}/progress`, { signal }));
      say(closed.next_round ? `Round ${closed.next_round} is open` : "The campaign is finished");
    } catch (error) {
      put(note, h("strong", {}, `${error.title}. `), error.detail, " ", error.remedy);
    }
  };

  target.addEventListener("input", () => {
    remember({ target: target.value });
    if (now) drawTiles(now.rounds.find((round) => round.closed_at === null));
  });
  show(await get(`/v1/campaigns/${id}/progress`, { signal }));
  errorBox.hidden = now.noise === null;
  content.append(tiles(accepted, refused, sure, left), note,
    h("div", { class: "pair" }, h("section", { class: "card" }, h("h2", {}, "Reports"), reportsLine), errorBox),
    now.noise !== null && !now.close_at_count ? h("div", { class: "controls" }, field("Wanted: a rare key known to \u00b1 %", target)) : "",
    h("section", {}, h("h2", {}, "Rounds"), h("div", { class: "scroll", role: "region", "aria-label": "Rounds", tabindex: 0 }, h("table", {}, h("thead", {}, h("tr", {}, ["Round", "Purpose", "Reports", "State", "Opened", "Closed", ""].map((title, at) => h(title ? "th" : "td", { scope: title ? "col" : null, class: at === 2 ? "number" : null }, title)))), rounds))),
    h("section", {}, h("h2", {}, "Refused, by reason"), h("p", { class: "muted" }, "Reports to this campaign since the collector process started. Whole requests that were refused are on the health page."), reasons));
  show(now);
  const stop = poll((signal) => get(`/v1/campaigns/${id}/progress`, { signal }), {
    show,
    fail: (error) => { if (!error.isOffline && error.status < 500) trouble(error); },
  });
  signal.addEventListener("abort", stop);
}
