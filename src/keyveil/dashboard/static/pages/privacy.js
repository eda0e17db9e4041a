import { get } from "../api.js";
import { download, h, nameNode, put } from "../dom.js";
import { count } from "../format.js";

/** The promise, its proof, and what it means; open to everybody. */
export async function draw({ content, params: { id }, signal }) {
  const waiting = h(
    "p",
    { class: "muted", role: "status" },
    "Computing the exact loss from the mechanism's integers\u2026",
  );
  content.append(waiting);
  const label = await get(`/v1/campaigns/${id}/privacy`, { signal });
  waiting.remove();
  const words = h(
    "section",
    {},
    h("h2", {}, "In words"),
    h(
      "ul",
      { class: "words" },
      label.words.map((sentence) => h("li", {}, sentence)),
    ),
  );
  content.append(h("div", { class: "label-grid" }, card(label), words), proof(label), costs(label));
}

function card(label) {
  const rows = [
    ["Asked by", nameNode(label.owner || "nobody named")],
    ["To", nameNode(label.purpose || "no purpose named")],
    ["Until", label.expires || "no end"],
    [
      "About",
      `${count(label.keys)} keys, values from ${label.value_range[0]} to ${label.value_range[1]}, up to ` +
        `${count(label.pairs_per_user)} a person`,
    ],
    ["Epsilon, exact", label.epsilon_exact.toPrecision(10)],
    ["Epsilon promised", `at most ${label.epsilon_promised}`],
    ...centralRows(label),
    ["An observer's guess", `from ${label.guess_before} to at most ${label.guess_after}`],
    [
      "Sent",
      `${[...new Set(label.rounds.map((round) => round.bytes_per_report))].join(" or ")} bytes, noised on ` +
        "the device, the same length for everybody",
    ],
  ];
  const note = h("span", { class: "muted", role: "status" });
  return h(
    "section",
    { class: "label-card", "aria-labelledby": "label-title" },
    h("h2", { id: "label-title" }, "Privacy label"),
    h("p", { class: "label-name" }, nameNode(label.name)),
    h(
      "dl",
      {},
      rows.map(([name, said]) => h("div", {}, h("dt", {}, name), h("dd", {}, said))),
    ),
    h(
      "p",
      { class: label.is_sound ? "sound" : "unsound" },
      label.is_sound
        ? "The promise holds: computed from the integers that devices draw with, not from a formula on paper."
        : "THE PROMISE DOES NOT HOLD. Do not use this campaign.",
    ),
    h(
      "p",
      { class: "buttons no-print" },
      h(
        "button",
        {
          type: "button",
          onclick: () => {
            download(new Blob([JSON.stringify(label, null, 2)], { type: "application/json" }), "privacy-label.json");
            put(note, "JSON saved");
          },
        },
        "Save as JSON",
      ),
      h("button", { type: "button", onclick: () => print() }, "Print the card"),
      note,
    ),
  );
}

/** What a relay adds, beside the local epsilon: promised, and by the batches that have come. */
function centralRows({ central }) {
  if (!central) {
    return [];
  }
  const said = (loss) =>
    loss.epsilon === null
      ? loss.words
      : `${loss.epsilon.toPrecision(4)} at delta ${loss.delta}, if relay and collector do not pool their data and ` +
        `${100 * loss.honest} % of a batch is honest`;
  const rows = [["Relay", `${central.relay}, in batches of at least ${count(central.batch)}`]];
  if (central.promised) {
    rows.push(["Central epsilon, by such batches", said(central.promised)]);
  }
  if (central.seen) {
    rows.push(["Central epsilon, as batches came", said(central.seen)]);
  }
  return rows;
}

// As many digits as a float holds.
const DIGITS = 17;

/** The quotient of two whole numbers in text, each of which may have more digits than any float. */
function quotient(numerator, denominator) {
  const leading = (text) => Number(text.slice(0, DIGITS));
  const cut = (text) => Math.max(0, text.length - DIGITS);
  return (leading(numerator) / leading(denominator)) * 10 ** (cut(numerator) - cut(denominator));
}

function proof(label) {
  const { worst_pair: worst, ratio, method } = label;
  const list = (said, none) =>
    said.length
      ? h(
          "ul",
          {},
          said.map((one) => h("li", {}, nameNode(one))),
        )
      : h("p", {}, none);
  const how = {
    enumeration: "every record, every value and every possible report was tried",
    "closed form, reached": "a closed form bounds all pairs, and this pair reaches it",
    "closed form, bound": "a closed form bounds all pairs; the pair below comes close",
    "product of the rounds": "the rounds' own exact losses, multiplied",
  };
  return h(
    "section",
    {},
    h("h2", {}, "The proof"),
    h(
      "p",
      {},
      "No two people's chances of sending the same report differ by more than the factor e",
      h("sup", {}, "\u03b5"),
      ` = ${quotient(...ratio).toPrecision(8)}. How that is known: ${how[method] ?? method}.`,
    ),
    h(
      "div",
      { class: "pair worst" },
      h("div", { class: "card" }, h("h3", {}, "The worst pair: one person holds"), list(worst.first, "nothing")),
      h("div", { class: "card" }, h("h3", {}, "another holds"), list(worst.second, "nothing")),
      h("div", { class: "card" }, h("h3", {}, "and the report says"), list(worst.report, "nothing about any key")),
    ),
    h(
      "details",
      {},
      h("summary", {}, "The factor as a fraction of integers"),
      h("p", { class: "long" }, h("code", {}, ratio[0]), " / ", h("code", {}, ratio[1])),
    ),
  );
}

function costs(label) {
  const rows = label.rounds.map((round) => [
    label.rounds.length > 1 ? `Round ${round.number}: ${round.purpose}` : "One report",
    round.epsilon_exact,
    round.guess_after,
    round.share_of_users < 1 ? `asked of ${(100 * round.share_of_users).toFixed(0)} % of people` : "",
  ]);
  if (label.rounds.length > 1) {
    rows.push(["All rounds that one person meets", label.epsilon_exact, label.guess_after, ""]);
  }
  rows.push([
    "All campaigns, for life",
    label.epsilon_lifetime_at_most,
    label.guess_after_lifetime,
    "the device's own cap",
  ]);
  return h(
    "section",
    {},
    h("h2", {}, "What it can cost"),
    h(
      "div",
      { class: "scroll", role: "region", "aria-label": "Costs", tabindex: 0 },
      h(
        "table",
        {},
        h(
          "thead",
          {},
          h(
            "tr",
            {},
            ["", "Epsilon at most", "A guess between two: 50 % becomes at most", ""].map((title) =>
              h(title ? "th" : "td", { scope: title ? "col" : null }, title),
            ),
          ),
        ),
        h(
          "tbody",
          {},
          rows.map(([what, epsilon, becomes, note]) =>
            h(
              "tr",
              {},
              h("th", { scope: "row" }, what),
              h("td", {}, Number(epsilon.toPrecision(8))),
              h("td", {}, becomes),
              h("td", { class: "muted" }, note),
            ),
          ),
        ),
      ),
    ),
  );
}
