"""The pages of the papers, in a real browser: on phones and screens, in both themes."""

import re

import pytest
from browsing import AXE, launched

from keyveil.palette import COLOURS
from keyveil.reproduce import Claim, load
from keyveil.reproduce.pages import Result, write_pages
from keyveil.reproduce.verdicts import CORRECTED, FAILS, HOLDS, ClaimVerdict


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    """Two papers with made-up numbers in every cell, one of them with a printed table."""
    results = []
    for name in ("em", "pckv"):
        result = Result(paper=load(name))
        for figure in result.paper.figures:
            cell = {f"{metric}{end}": 0.02 for metric in figure.metrics for end in ("", "_se", "_theory")}
            result.cells[figure.id] = {
                (method, value): {**cell, "mean_truth": 0.1}
                for method in figure.methods
                for value in figure.values
            }
        fates = [HOLDS, HOLDS, CORRECTED, FAILS]
        claim = Claim(text="Of two methods one has the smaller error.", figure="f", metric="m")
        result.verdicts = [
            ClaimVerdict(claim=claim, fate=fate, evidence="ratio 0.2 to 0.9") for fate in fates
        ]
        results.append(result)
    return write_pages(results, tmp_path_factory.mktemp("pages"), quick=False)


@pytest.fixture(scope="module")
def browser():
    with launched() as made:
        yield made


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [320, 768, 1280])
def test_pages_fit_every_screen_in_both_themes_and_keep_nobody_out(browser, pages, width, theme):
    context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=theme)
    for path in pages:
        page = context.new_page()
        page.goto(path.as_uri())
        assert page.evaluate("document.documentElement.scrollWidth") <= width, path.name
        page.evaluate(AXE.read_text(encoding="utf-8"))
        found = page.evaluate("axe.run(document, { resultTypes: ['violations'] })")["violations"]
        assert [(fault["id"], fault["nodes"][0]["html"][:200]) for fault in found] == []
        page.close()
    context.close()


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_curves_and_words_of_a_plot_stand_out_from_the_page(browser, pages, theme):
    context = browser.new_context(color_scheme=theme)
    page = context.new_page()
    page.goto(pages[0].as_uri())
    ratios = page.evaluate(
        """(n) => {
          const canvas = document.createElement("canvas").getContext("2d");
          const light = (colour) => {
            canvas.fillStyle = colour;
            canvas.fillRect(0, 0, 1, 1);
            const [r, g, b] = [...canvas.getImageData(0, 0, 1, 1).data].map((one) =>
              (one / 255 <= 0.04045 ? one / 255 / 12.92 : ((one / 255 + 0.055) / 1.055) ** 2.4));
            return 0.2126 * r + 0.7152 * g + 0.0722 * b;
          };
          const root = getComputedStyle(document.documentElement);
          const ground = light(getComputedStyle(document.body).backgroundColor);
          const against = (one) => (Math.max(one, ground) + 0.05) / (Math.min(one, ground) + 0.05);
          const curves = [...Array(n).keys()].map((place) => root.getPropertyValue(`--curve-${place}`));
          const texts = [...document.querySelectorAll("figure text")];
          const words = texts.map((text) => getComputedStyle(text).fill);
          const least = (colours) => Math.min(...colours.map((colour) => against(light(colour))));
          return [least(curves), least(words), words.length];
        }""",
        len(COLOURS),
    )
    assert ratios[0] >= 3
    assert ratios[1] >= 4.5
    assert ratios[2] > 50
    context.close()


def test_totals_come_first_and_the_papers_numbers_are_hollow_marks_beside_ours(pages):
    paper, _, index = (path.read_text() for path in pages)
    for text, count in ((paper, 4), (index, 8)):
        total = re.search(r'class="totals">(.*?)</p>', text, re.DOTALL).group(1)
        said = re.sub(r"<[^>]*>", "", total)
        each = count // 4
        fates = f"holds {2 * each}, holds with correction {each}, does not hold {each}"
        assert " ".join(said.split()) == f"{count} claims: {fates}."
    assert "hollow marks are the paper's own numbers" in paper
    first = paper[paper.index("<figure") : paper.index("</figure>")]
    hollow = re.findall(r'style="fill-opacity: 0[^"]*stroke: var\(--curve-(\d)\)', first)
    printed = load("em").figures[0].printed
    methods = load("em").figures[0].methods
    assert {int(place) for place in hollow} == {methods.index(method) for method in printed}
