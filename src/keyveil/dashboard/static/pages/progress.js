import { get, poll, post } from "../api.js";
import { errorByReports, reportsOverTime } from "../charts.js";
import { h, nameNode, put, say } from "../dom.js";
import { count, short, span, when } from "../format.js";
import { confirm, field, refusalAlarm, refusals, tile, tiles } from "../parts.js";

const KEPT = 2000;
// Reports of which a precision is promised before there are any.
const PROMISED = 1000;
// The rate of reports is that of the last half minute.
const WINDOW = 30;

/** How far a campaign is, live. */
export async function draw({ content, params: { id }, query, remember, signal, trouble }) {
  const accepted = tile("Reports counted");
  const refused = tile("Refused");
  const sure = tile("A rare key is known to");
  const left = tile("Time to target");
  const target = h("input", {
    type: "number",
    id: "target",
    min: 0.01,
    max: 50,
    step: "any",
    value: query.get("target") ?? "",
    placeholder: "such as 1",
  });
  const reportsLine = reportsOverTime(signal);
  const errorLine = errorByReports(signal);
  const aim = field("Wanted: a rare key known to \u00b1 % of people", target);
  const errorBox = h(
    "section",
    { class: "card" },
    h("h2", {}, "The error bar shrinks"),
    errorLine,
    h(
      "p",
      { class: "muted" },
      "Half the width of the 95 % interval of a key that hardly anybody holds, by reports; frequent keys are " +
        "a little less sure. The dot is now.",
    ),
    aim,
  );
  const rounds = h("tbody");
  const closing = h("span");
  const reasons = h("div");
  const warning = h("div");
  const note = h("p", { class: "note", role: "status" });
  const refusal = h("p", { class: "note", role: "alert" });
  const times = [];
  const totals = [];
  let now;

  const wanted = () => (Number(target.value) > 0 ? Number(target.value) / 100 : null);
  /** Of the round that tells frequencies: its reports so far, and what so many would say. */
  const heard = () => now.rounds.find(({ number }) => number === now.telling?.round)?.reports ?? 0;
  const halfWidth = (n) => now.z * Math.sqrt(now.telling.noise / n);
  const canAim = (open) => !now.close_at_count && now.telling !== null && now.telling.round === open?.number;
  const needed = (open) => {
    if (now.close_at_count) return now.close_at_count;
    const want = wanted();
    return want && canAim(open) ? Math.ceil(now.telling.noise * (now.z / want) ** 2) : null;
  };

  const show = (said) => {
    const before = now;
    now = said;
    const open = said.rounds.find((round) => round.closed_at === null);
    if (!times.length || said.now > times.at(-1)) {
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
    put(warning, refusalAlarm(said.statuses, said.refused_at));
    if (before && before.reports === 0 && said.reports > 0) say("The first reports are in");
    if (before && before.state !== said.state) say(`The campaign is ${said.state}`);
    describe(open);
  };

  const rate = () => {
    const last = times.length - 1;
    let first = last;
    while (first > 0 && times[last] - times[first] < WINDOW) first--;
    return last > first ? (totals[last] - totals[first]) / (times[last] - times[first]) : 0;
  };

  /** How fast reports come in, in words. */
  const pace = (open, speed) => {
    if (!open) return "no more are taken";
    if (speed < 0.05) return "none in the last half minute";
    return `${speed < 10 ? speed.toFixed(1) : count(Math.round(speed))} a second`;
  };

  /** What is still to wait for, and for what. */
  const remaining = (open, goal, speed) => {
    if (!open) return ["done", "the last round is closed"];
    if (goal && open.reports >= goal) return ["reached", `${count(goal)} reports`];
    if (goal) {
      const purpose = now.close_at_count ? "close the round" : `for \u00b1${target.value} %`;
      return [speed > 0 ? span((goal - open.reports) / speed) : "waiting", `${count(goal)} reports ${purpose}`];
    }
    if (open.closes_at) return [span(open.closes_at - now.now), `closes ${when(open.closes_at)}`];
    return ["no target", canAim(open) ? "set one below" : "the round is closed by hand"];
  };

  const drawTiles = (open) => {
    const { accepted: _, duplicate: repeats, ...others } = now.statuses;
    const lost = Object.values(others).reduce((sum, n) => sum + n, 0);
    const speed = rate();
    const goal = needed(open);
    accepted.show(count(now.reports), pace(open, speed));
    refused.show(
      count(lost),
      repeats ? `and ${count(repeats)} repeats, which is no fault` : "since the collector started",
    );
    sure.show(...precision());
    left.show(...remaining(open, goal, speed));
    aim.hidden = !canAim(open);
    reportsLine.draw(
      times,
      totals,
      goal && now.rounds.length === 1 && goal < 4 * Math.max(now.reports, 1) ? goal : null,
    );
    errorBox.hidden = now.telling === null || now.telling.is_planned;
    if (!errorBox.hidden) errorLine.draw(halfWidth, heard(), goal, canAim(open) ? wanted() : null);
  };

  /** How unsure a rare key is, or which round will say. */
  const precision = () => {
    const { telling } = now;
    if (telling === null) return ["at the end", "no round tells frequencies by itself"];
    if (telling.is_planned) {
      return [
        `in round ${telling.round}`,
        `${telling.purpose}: ${count(PROMISED)} reports to it would give \u00b1${short(100 * halfWidth(PROMISED))} %`,
      ];
    }
    if (!heard()) return ["no report yet", `${count(PROMISED)} would give \u00b1${short(100 * halfWidth(PROMISED))} %`];
    return [
      `\u00b1${short(100 * halfWidth(heard()))} %`,
      now.rounds.length > 1 ? `of people, 95 % interval; by round ${telling.round} alone` : "of people, 95 % interval",
    ];
  };

  const drawRounds = (all) => {
    const rows = all.map((round) =>
      h(
        "tr",
        {},
        h("th", { scope: "row", class: "narrow" }, round.number),
        h("td", { class: "words-in" }, nameNode(round.purpose)),
        h("td", { class: "number" }, count(round.reports)),
        h(
          "td",
          {},
          round.closed_at === null
            ? h("span", { class: "badge open" }, "open")
            : h("span", { class: "badge finished" }, "closed"),
        ),
        h("td", { class: "nowrap" }, when(round.opened_at)),
        h(
          "td",
          {},
          round.closed_at === null
            ? round.closes_at
              ? `closes ${when(round.closes_at)}`
              : "\u2013"
            : `${when(round.closed_at)}, ${round.why}`,
        ),
      ),
    );
    put(rounds, rows);
    const open = now.state === "open" ? all.find((round) => round.closed_at === null) : undefined;
    // The button is replaced only when it is another, so that the focus stays on it.
    if (closing.dataset.round === String(open?.number)) return;
    const hadFocus = closing.contains(document.activeElement);
    closing.dataset.round = String(open?.number);
    put(closing, open && h("button", { type: "button", onclick: () => close(open) }, `Close round ${open.number}`));
    if (hadFocus) closing.querySelector("button")?.focus();
  };

  const describe = (open) => {
    if (now.state === "expired") put(note, "The campaign has expired: nothing more is counted.");
    else if (!open) put(note, "All rounds are closed. ", h("a", { href: `#/c/${id}/results` }, "See the results"), ".");
    else if (now.reports === 0) {
      put(
        note,
        "No report yet. Devices send to this campaign's address; to try it: ",
        h("code", {}, `keyveil send ${location.origin}/v1/campaigns/${id} PAIRS.csv`),
      );
    } else if (now.reports === 1) {
      put(note, "One report: it is noise and one person's answer, and tells nothing about anybody.");
    } else if (open.number > 1 || now.has_several_rounds) {
      put(note, `Round ${open.number} is open: ${open.purpose}. There are no results before the last round is closed.`);
    } else {
      put(
        note,
        "Reports are noised, so looking early costs nobody anything. ",
        h("a", { href: `#/c/${id}/results` }, "See what is known so far"),
        ".",
      );
    }
  };

  const close = async (round) => {
    const yes = await confirm(
      `Close round ${round.number}?`,
      "No more reports are taken to it, and this cannot be undone. It has " +
        `${count(now.rounds.find((one) => one.number === round.number).reports)} reports.`,
      "Close it",
    );
    if (!yes) return;
    put(refusal);
    try {
      const closed = await post(`/v1/campaigns/${id}/rounds/${round.number}/close`);
      show(await get(`/v1/campaigns/${id}/progress`, { signal }));
      say(closed.next_round ? `Round ${closed.next_round} is open` : "The campaign is finished");
    } catch (error) {
      // Beside the words about the round, which every look writes anew.
      put(refusal, h("strong", {}, `${error.title}. `), error.detail, " ", error.remedy);
    }
  };

  target.addEventListener("input", () => {
    remember({ target: target.value });
    if (now) drawTiles(now.rounds.find((round) => round.closed_at === null));
  });
  show(await get(`/v1/campaigns/${id}/progress`, { signal }));
  content.append(
    warning,
    tiles(accepted, refused, sure, left),
    note,
    refusal,
    h(
      "div",
      { class: "pair" },
      h(
        "section",
        { class: "card" },
        h("h2", {}, "Reports"),
        reportsLine,
        h("p", { class: "muted" }, "Live since this page was opened; what came before is in the total alone."),
      ),
      errorBox,
    ),
    h(
      "section",
      {},
      h("div", { class: "title" }, h("h2", {}, "Rounds"), closing),
      h(
        "div",
        { class: "scroll", role: "region", "aria-label": "Rounds", tabindex: 0 },
        h(
          "table",
          {},
          h(
            "thead",
            {},
            h(
              "tr",
              {},
              ["Round", "Purpose", "Reports", "State", "Opened", "Closed"].map((title, at) =>
                h("th", { scope: "col", class: at === 2 ? "number" : null }, title),
              ),
            ),
          ),
          rounds,
        ),
      ),
    ),
    h(
      "section",
      {},
      h("h2", {}, "Refused, by reason"),
      h(
        "p",
        { class: "muted" },
        "Reports to this campaign since the collector process started. Whole requests that were refused are " +
          "on the health page.",
      ),
      reasons,
    ),
  );
  show(now);
  const stop = poll((turn) => get(`/v1/campaigns/${id}/progress`, { signal: turn }), {
    show,
    fail: (error) => {
      if (!error.isOffline && error.status < 500) trouble(error);
    },
  });
  signal.addEventListener("abort", stop);
}
