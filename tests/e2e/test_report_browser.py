"""The report in a real browser: offline, silent, every chart drawn, readable, printable, right when re-analysed."""

import base64
import csv
import json
import math
import re
from dataclasses import replace

import numpy as np
import pytest

from cross_backend.measure.statistics import median_interval
from cross_backend.records import Outcome, Result
from cross_backend.report import html, verdicts
from tests.browser import CONTRAST, DESK, PHONE
from tests.unit.report import studies

HOSTILE = "</script><img src=x onerror=alert(1)> \"'& 🦀 " + "long" * 60
CHAPTERS_WITH_CHARTS = ("latency", "ratio", "batch", "frontier", "cold-start", "throughput", "memory")
SMALL = {"width": 400, "height": 800}

CHARTS = """() => [...document.querySelectorAll("svg.chart:not(.key)")]
  .filter((svg) => svg.getClientRects().length).map((svg) => {
  const box = svg.getBoundingClientRect(), view = svg.viewBox.baseVal, outside = [], broken = [];
  let marks = 0;
  for (const mark of svg.querySelectorAll("path, line, rect, text")) {
    for (const { name, value } of mark.attributes) {
      if (/NaN|Infinity|undefined/.test(value)) broken.push(`${mark.tagName} ${name}=${value}`);
    }
    const inner = mark.getBBox(), matrix = mark.transform.baseVal.consolidate()?.matrix;
    const corners = [[inner.x, inner.y], [inner.x + inner.width, inner.y + inner.height]].map(([x, y]) =>
      matrix ? [matrix.a * x + matrix.c * y + matrix.e, matrix.b * x + matrix.d * y + matrix.f] : [x, y]);
    for (const [x, y] of corners) {
      if (x < -1 || y < -1 || x > view.width + 1 || y > view.height + 1) {
        outside.push(`${mark.tagName}.${mark.getAttribute("class")} ${mark.textContent.slice(0, 40)} ${x},${y}`);
      }
    }
    if (/mark|line|box|segment/.test(mark.getAttribute("class"))) marks += inner.width > 0 || inner.height > 0 ? 1 : 0;
  }
  const title = svg.querySelector("title").textContent;
  return { title, section: svg.closest("section").id, width: box.width, height: box.height, marks, outside, broken };
})"""

SERIES_CONTRAST = """() => {
  const channel = (v) => (v /= 255) <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
  const light = (text) => {
    const [r, g, b] = text.match(/[\\d.]+/g).map((v) => channel(Number(v)));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const paper = light(getComputedStyle(document.querySelector("figure")).backgroundColor);
  return [...document.querySelectorAll("svg.chart:not(.key) .line")].map((line) => {
    const ink = light(getComputedStyle(line).stroke);
    return (Math.max(ink, paper) + 0.05) / (Math.min(ink, paper) + 0.05);
  });
}"""


@pytest.fixture(scope="module")
def full(tmp_path_factory):
    path = tmp_path_factory.mktemp("full") / "report.html"
    html.write(studies.study(), path)
    return path


def written(results, folder):
    html.write(results, folder / "report.html")
    return folder / "report.html"


def awkward():
    """Studies whose pages must be as sound as that of a good one."""
    panel = studies.panel(targets=2)
    hostile = tuple(replace(r, title=f"{HOSTILE}{i}", reason=HOSTILE) for i, r in enumerate(panel.results))
    failed = tuple(Result("net", f"b{i}", f"B{i}", Outcome.RUN_FAIL, "it crashed") for i in range(3))
    return {
        "empty": replace(studies.study(), panels=(), finished=False),
        "one target": studies.study(studies.panel(targets=1)),
        "all failed": studies.study(replace(panel, results=failed, noise_floor=None)),
        "hostile": studies.study(replace(panel, workload=HOSTILE, results=hostile), name=HOSTILE),
        "interrupted": replace(studies.study(replace(panel, interrupted=True)), finished=False),
    }


def overflow(page):
    return page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")


@pytest.mark.parametrize("viewport", [DESK, PHONE], ids=["desk", "phone"])
def test_every_chart_is_drawn(visit, full, viewport):
    page = visit(full, viewport=viewport)
    charts = page.evaluate(CHARTS)
    assert {chart["section"] for chart in charts} == set(CHAPTERS_WITH_CHARTS)
    for chart in charts:
        assert chart["width"] > 250 and chart["height"] > 80, chart
        assert chart["marks"] >= 7, chart
        assert chart["broken"] == [] and chart["outside"] == [], chart
    assert overflow(page) <= 0


@pytest.mark.parametrize("name", awkward())
@pytest.mark.parametrize(
    "viewport", [pytest.param(DESK, marks=pytest.mark.slow, id="desk"), pytest.param(PHONE, id="phone")]
)
def test_awkward_studies_are_sound_pages(visit, name, viewport, tmp_path):
    page = visit(written(awkward()[name], tmp_path), viewport=viewport)
    page.locator("#again").scroll_into_view_if_needed()
    page.wait_for_timeout(200)
    for chart in page.evaluate(CHARTS):
        assert chart["broken"] == [] and chart["outside"] == [], chart
    assert overflow(page) <= 0
    assert page.locator("img").count() == 0
    timed = name not in {"empty", "all failed"}
    assert page.locator("#again-form").is_visible() == timed
    assert page.locator("#again-none").is_visible() != timed


WITHIN = """(selector) => [...document.querySelectorAll(selector)].map((element) => {
  const box = element.getBoundingClientRect(), scroll = element.closest(".scroll");
  const right = scroll ? scroll.getBoundingClientRect().right : document.documentElement.clientWidth;
  return { text: element.textContent, left: box.left, outside: box.left < -1 || box.right > right + 1 };
})"""
"""Elements, and whether one has to scroll sideways to see them."""


@pytest.mark.parametrize("viewport", [DESK, SMALL], ids=["desk", "small"])
def test_what_decides_is_seen_without_scrolling_sideways(visit, full, viewport):
    page = visit(full, viewport=viewport)
    assert overflow(page) <= 0
    cells = "#ranking article tbody tr.ranked > *"
    reasons, failures = "#stopped + .scroll td", len(studies.FAILURES)
    for selector, count in (("nav a", 15), (".verdicts dd", 4), (cells, 4 * 7 * 7), (reasons, 4 * failures)):
        found = page.evaluate(WITHIN, selector)
        assert len(found) == count and [row["text"] for row in found if row["outside"]] == [], selector
    wide = page.locator("#ranking article .scroll").first
    assert not wide.evaluate("(e) => e.scrollWidth > e.clientWidth"), "nothing is cut, so nothing has to be scrolled"
    more = page.locator("#ranking .more").first
    assert not more.locator("dd").first.is_visible()
    more.locator("summary").click()
    assert more.locator("dd").first.is_visible() and overflow(page) <= 0


def test_the_verdict_is_the_first_that_is_read(visit, tmp_path):
    page = visit(written(studies.study(studies.panel()), tmp_path), viewport=SMALL)
    place = page.locator(".verdict").bounding_box()
    assert place["y"] + place["height"] < SMALL["height"] * 0.6
    advice, *further = verdicts.parts(studies.panel())
    assert page.locator(".verdict").inner_text() == advice
    assert page.locator(".verdict + .lead").inner_text() == " ".join([*further, verdicts.lead(studies.panel())])


def test_a_phone_comes_back_to_the_sections(visit, full):
    page = visit(full, viewport=SMALL)
    page.locator("#warnings").scroll_into_view_if_needed()
    assert not page.locator("nav").is_visible() or page.locator("nav").bounding_box()["y"] < 0
    page.get_by_text("↑ Sections").click()
    page.wait_for_function("() => Math.abs(document.querySelector('nav').getBoundingClientRect().top) < 200")
    assert not visit(full).get_by_text("↑ Sections").is_visible()


@pytest.mark.slow
def test_forty_targets_in_twenty_panels(visit, tmp_path):
    made = studies.panel(targets=40, runs=2)
    panel = replace(made, results=tuple(replace(result, measurements=()) for result in made.results))
    page = visit(written(studies.study(*(replace(panel, workload=f"workload {i}") for i in range(20))), tmp_path))
    assert overflow(page) <= 0
    page.select_option("#only", label="workload 7, batch 1, 1 thread")
    left = page.locator("article[data-panel]:visible")
    assert {left.nth(i).get_attribute("data-panel") for i in range(left.count())} == {"p7"}
    assert left.count() >= 5
    assert page.locator("#latency article:visible figure").count() == 6  # 40 curves in charts of 8, and the boxes
    page.set_viewport_size(PHONE)
    assert overflow(page) <= 0
    page.select_option("#only", value="")
    assert page.locator("#ranking article:visible").count() == 20
    assert overflow(page) <= 0


def analysed(page, panel, a, b, percent):
    """Choose in the box; give what it then shows."""
    page.locator("#again").scroll_into_view_if_needed()
    page.wait_for_selector("#again-ratio")
    page.select_option("#again-panel", index=panel)
    page.select_option("#again-a", label=a)
    page.select_option("#again-b", label=b)
    page.fill("#again-percent", str(percent))
    page.locator("#again-percent").blur()
    page.wait_for_function(
        """([percent, a, b]) => {
          const text = document.getElementById("again-result").textContent;
          return text.includes(`P${percent} of A`) && text.includes(`A: ${a}`) && text.includes(`B: ${b}`);
        }""",
        arg=[percent, a, b],
    )
    return page.evaluate(
        """() => {
          const data = (id) => ({ ...document.getElementById(id).dataset });
          const [a, b] = [data("again-value-a"), data("again-value-b")];
          return { a, b, ratio: data("again-ratio"), paired: data("again-paired") };
        }"""
    )


def samples_of(panel, title):
    (result,) = (r for r in panel.results if r.title == title)
    return [np.asarray(row) for row in result.latency.rounds]


@pytest.mark.parametrize(
    "percent", [0, 99.9, *(pytest.param(share, marks=pytest.mark.slow) for share in (50, 90, 100))]
)
def test_re_analysis_equals_numpy(visit, full, percent):
    shown = analysed(visit(full), 1, "IREE", "OpenVINO", percent)
    panel = studies.study().panels[1]
    rounds = [samples_of(panel, title) for title in ("IREE", "OpenVINO")]
    a, b = (np.percentile(np.concatenate(rows), percent, method="inverted_cdf") for rows in rounds)
    assert (float(shown["a"]["ns"]), float(shown["b"]["ns"])) == (a, b)
    assert float(shown["ratio"]["ratio"]) == pytest.approx(a / b, rel=1e-12)
    ratios = [float(np.median(x)) / float(np.median(y)) for x, y in zip(*rounds, strict=True)]
    low, high = median_interval(ratios)
    wanted = {"value": float(np.median(ratios)), "low": low, "high": high}
    assert {key: float(shown["paired"][key]) for key in wanted} == pytest.approx(wanted, rel=1e-12)


def test_the_redrawn_curve_is_that_of_the_samples(visit, full):
    page = visit(full)
    analysed(page, 0, "IREE", "OpenVINO", 50)
    path = page.locator("#again-result svg path.line").first.get_attribute("d")
    places = [float(x) for x in re.findall(r"H(-?[\d.]+)", path)]
    panel = studies.study().panels[0]
    values = {title: np.sort(np.concatenate(samples_of(panel, title))) for title in ("IREE", "OpenVINO")}
    low, high = min(v[0] for v in values.values()) / 1.02, max(v[-1] for v in values.values()) * 1.02
    count = len(values["IREE"])
    wanted = values["IREE"][[-(-count * step // 400) - 1 for step in range(1, 401)]]
    x = 60 + np.log(wanted / low) / math.log(high / low) * (640 - 60 - 18)
    assert places == pytest.approx(list(x), abs=0.011)


def test_a_percentile_that_is_none_is_refused(visit, full):
    page = visit(full)
    analysed(page, 0, "IREE", "OpenVINO", 50)
    for text in ("101", ""):
        page.fill("#again-percent", text)
        page.locator("#again-percent").blur()
        page.wait_for_function("() => document.getElementById('again-result').textContent.includes('from 0 to 100')")


def test_raw_samples_download_as_csv(visit, tmp_path):
    panel = studies.panel(targets=2)
    named = tuple(replace(r, title='=1+"x",\n') if r.title == "OpenVINO" else r for r in panel.results)
    page = visit(written(studies.study(replace(panel, results=named)), tmp_path))
    with page.expect_download() as waiting:
        page.click("#again-csv")
    with waiting.value.path().open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert {row["backend"] for row in rows} == {"onnxruntime", '\'=1+"x",\n'}
    for title, other in (("onnxruntime", "onnxruntime"), ("OpenVINO", '\'=1+"x",\n')):
        found = [int(row["latency_ns"]) for row in rows if row["backend"] == other]
        assert found == np.concatenate(samples_of(panel, title)).tolist()
    assert rows[-1]["round"] == "29" and rows[-1]["sample"] == "39"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_texts_and_lines_stand_out(visit, full, scheme):
    page = visit(full, color_scheme=scheme)
    page.evaluate("document.querySelectorAll('details').forEach((d) => { d.open = true; })")
    ratios = page.evaluate(CONTRAST)
    assert len(ratios) > 20
    assert {name: ratio for name, ratio in ratios.items() if ratio < 4.5} == {}
    assert min(page.evaluate(SERIES_CONTRAST)) >= 3  # WCAG 2.2, 1.4.11: graphics


def test_dark_mode_differs(visit, full):
    colours = {
        scheme: visit(full, color_scheme=scheme).evaluate("getComputedStyle(document.body).backgroundColor")
        for scheme in ("light", "dark")
    }
    assert colours == {"light": "rgb(255, 255, 255)", "dark": "rgb(20, 23, 27)"}


@pytest.mark.slow
def test_print_has_all_charts_on_white_paper(visit, full):
    page = visit(
        full, color_scheme="dark", viewport={"width": 1031, "height": 703}
    )  # A4 across, within its margins, at 96 dpi
    page.emulate_media(media="print", color_scheme="dark")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert not page.locator("nav").is_visible() and not page.locator("#again").is_visible()
    charts = page.evaluate(CHARTS)
    assert all(chart["width"] > 250 and chart["outside"] == [] for chart in charts)
    assert overflow(page) <= 0
    assert page.locator("#memory details.data >> text=why not").first.is_visible()  # no reason hides in a closed box
    assert page.pdf(prefer_css_page_size=True).count(b"/Type /Page\n") >= 5


def test_it_reads_without_script(visit, full):
    page = visit(full, java_script_enabled=False)
    assert page.locator("#ranking article table").count() == 4
    assert page.locator("#latency svg").first.bounding_box()["width"] > 250
    assert page.get_by_text("This box needs JavaScript").is_visible()


def test_the_policy_stops_scripts_of_others(browser, full, tmp_path):
    """That nothing is asked for is not only our good will: the page itself forbids it."""
    changed = full.read_text(encoding="utf-8").replace("<main>", "<main><script>document.title = 'taken'</script>")
    (tmp_path / "changed.html").write_text(changed, encoding="utf-8")
    page = browser.new_page()
    said = []
    page.on("console", lambda message: said.append(message.text))
    page.goto((tmp_path / "changed.html").as_uri())
    assert page.title() != "taken" and any("Content Security Policy" in text for text in said)
    refused = page.evaluate("fetch('http://127.0.0.1:9/').then(() => 'sent', (error) => error.name)")
    assert refused == "TypeError" and any("connect-src" in text or "default-src" in text for text in said)
    page.close()


def test_damaged_samples_are_told(visit, full, tmp_path):
    text = full.read_text(encoding="utf-8")
    damaged = re.sub(r'(id="raw-p0-0" data-kind="u4">)[^<]*', lambda m: m[1] + base64.b64encode(b"no").decode(), text)
    (tmp_path / "damaged.html").write_text(damaged, encoding="utf-8")
    page = visit(tmp_path / "damaged.html")
    page.locator("#again").scroll_into_view_if_needed()
    page.wait_for_function("() => document.getElementById('again-result').textContent.includes('cannot be read')")
    assert json.loads(page.locator("#raw-index").text_content())
