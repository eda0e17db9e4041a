"""Every mark that carries a number stands out from what is behind it by 3 to 1, measured in the page."""

import pytest
from browsing import expect, visiting

# Everything drawn inside figures and tables that says a number; gridlines and frames say none.
MARKS = ".mark .reach, .mark .point, svg.plot rect, svg.plot line, svg.plot circle, svg.plot path"
MEASURE = """([selector]) => {
  const channel = (x) => (x <= 0.03928 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4);
  const light = ([r, g, b]) =>
    0.2126 * channel(r / 255) + 0.7152 * channel(g / 255) + 0.0722 * channel(b / 255);
  const read = (text) => (text.match(/[\\d.]+/g) ?? []).map(Number);
  const behind = (element) => {
    for (let at = element; at; at = at.parentElement) {
      const [r, g, b, alpha = 1] = read(getComputedStyle(at).backgroundColor);
      if (alpha > 0) return [r, g, b];
    }
    return [255, 255, 255];
  };
  const faults = [];
  let measured = 0;
  for (const mark of document.querySelectorAll(selector)) {
    const box = mark.getBBox();
    if (mark.closest("[data-part*=grid], [data-part*=axis]") || box.width + box.height === 0) continue;
    if (mark.tagName === "rect" && box.width * box.height === 0) continue;
    const style = getComputedStyle(mark);
    const opacity = (name) => Number(style[name] || 1) * Number(style.opacity || 1);
    const inks = [["fill", "fillOpacity"], ["stroke", "strokeOpacity"]]
      .filter(([name]) => style[name] !== "none")
      .map(([name, how]) => [read(style[name]), opacity(how)]);
    const ground = behind(mark.closest("svg").parentElement);
    const contrast = ([ink, alpha]) => {
      const mixed = ink.slice(0, 3).map((c, at) => alpha * c + (1 - alpha) * ground[at]);
      const [high, low] = [light(mixed), light(ground)].sort((a, b) => b - a);
      return (high + 0.05) / (low + 0.05);
    };
    if (!inks.length) continue;
    measured += 1;
    const best = Math.max(...inks.map(contrast));
    if (best < 3) faults.push([mark.outerHTML.slice(0, 120), best]);
  }
  return [measured, faults];
}"""


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_marks_stand_out(browser, furnished, theme):
    closed = furnished.campaigns["closed"].id
    pages = {
        "results": f"/c/{closed}/results",
        "compare": f"/c/{closed}/compare?with={furnished.campaigns['open'].id}",
        "values": f"/c/{furnished.campaigns['values'].id}/results",
        "key": f"/c/{closed}/keys/0",
        "plan": "/plan",
    }
    with visiting(browser, furnished.url, token=furnished.admin, theme=theme) as visitor:
        for name, path in pages.items():
            page = visitor.go(path)
            if name == "plan":
                expect(page.locator("p.price")).to_be_visible()
            page.wait_for_timeout(300)
            measured, faults = page.evaluate(MEASURE, [MARKS])
            assert measured > 3, name
            assert not faults, (name, len(faults), faults[:3])
