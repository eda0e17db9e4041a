import { h, nameNode } from "../dom.js";
import { guessWords, short } from "../format.js";
import { tile, tiles } from "../parts.js";
import { mostInAYear } from "../trends.js";

/** What a whole series costs a person, from its public text alone. */
export function draw({ content, view }) {
  const asked = JSON.parse(view.campaign);
  const { series, epsilon } = asked;
  const answers = series.answers ?? 1;
  const inAYear = mostInAYear(series.every, series.waves, answers);
  content.append(
    tiles(
      tile(
        "The whole series",
        `epsilon ${short(answers * epsilon)}`,
        `${answers} of ${series.waves} waves, each at ${short(epsilon)}`,
      ),
      tile(
        "In a year",
        `epsilon ${short(inAYear * epsilon)}`,
        `at most ${inAYear} ${inAYear === 1 ? "answer" : "answers"} in any year`,
      ),
      tile("One wave", `epsilon ${short(epsilon)}`, "whoever answers it"),
      tile(
        "A guess about a person",
        guessWords(answers * epsilon),
        "right at most so often, after all waves; 50 % before",
      ),
    ),
    h(
      "section",
      { class: "card" },
      h("h2", {}, "What a person gives"),
      h(
        "ul",
        { class: "words" },
        [
          `A device answers ${answers} of ${series.waves} waves, each once, and none of the others.`,
          "Which ones follows from a secret of its own: nobody else knows, and what is held has no say in it.",
          `The price of all, epsilon ${short(answers * epsilon)}, is booked with the first answer.`,
          "Each answer has noise of its own, and nothing links two answers of a device to each other.",
          asked.relay
            ? "A relay stands between; the waves' own pages say what it adds."
            : "Not hidden: that a device took part, and when.",
        ].map((sentence) => h("li", {}, sentence)),
      ),
      h(
        "p",
        { class: "muted" },
        "From the series' public text, whose hash is its id. ",
        view.wave && [
          "The exact promise of the wave that is open, computed from its sampler's integers: ",
          h("a", { href: `#/c/${view.wave.id}/privacy` }, `wave ${view.wave.number}`),
          ".",
        ],
      ),
      asked.owner && h("p", { class: "muted" }, "Asked by ", nameNode(asked.owner), "."),
    ),
  );
}
