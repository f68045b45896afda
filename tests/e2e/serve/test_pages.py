"""The pages in a real browser: play, switch, compare, crash, browse; silent, readable, and asking nobody else."""

import contextlib
import os
import re
import shutil
import signal

import pytest

from cross_backend.web.pages import GUIDES, short
from tests import needs
from tests.browser import CONTRAST, DESK, PHONE, chromium
from tests.e2e.serve.conftest import TARGETS
from tests.e2e.serve.test_api import HISTORY, seven
from tests.e2e.test_report_browser import CHARTS
from tests.runtimes import bring

MOST_BYTES = 300_000
"""Of the first page, with all that it asks for."""
UNNAMED = """() => [...document.querySelectorAll(
    "input, select, textarea, button, canvas, img, svg[role=img], [role=region]")]
  .filter((e) => e.checkVisibility() && !(e.labels?.length || e.getAttribute("aria-label") || e.getAttribute("alt")
    || e.querySelector?.(":scope > title") || (e.tagName === "BUTTON" && e.textContent.trim())))
  .map((e) => e.outerHTML.slice(0, 120))"""
"""What a screen reader could not name."""


@pytest.fixture(scope="module")
def browser():
    with chromium() as found:
        yield found


@contextlib.contextmanager
def visiting(browser, served):
    """Give a function that opens an address in a fresh profile; what the page says or asks elsewhere ends the test."""
    contexts = []

    def go(path, **options):
        context = browser.new_context(**{"viewport": DESK, **options})
        contexts.append(context)
        page = context.new_page()
        page.said, page.asked, page.size = [], [], 0
        page.on("console", lambda message: page.said.append(message.text))
        page.on("pageerror", lambda error: page.said.append(str(error)))
        page.on("request", lambda request: page.asked.append(request.url))
        page.goto(served.url + path)
        return page

    yield go
    for context in contexts:
        for page in context.pages:
            assert page.said == []
            assert [url for url in page.asked if not url.startswith((served.url, "blob:", "data:"))] == []
        context.close()


@pytest.fixture
def visit(browser, served):
    with visiting(browser, served) as go:
        yield go


def draw(page):
    """Draw a seven with the mouse."""
    box = page.locator("#drawing").bounding_box()
    page.mouse.move(box["x"] + 60, box["y"] + 50)
    page.mouse.down()
    for x, y in ((160, 50), (130, 110), (100, 190)):
        page.mouse.move(box["x"] + x, box["y"] + y, steps=5)
    page.mouse.up()


def figures(page, card=0):
    """Give name → text of an overlay, when there are some."""
    page.locator(".card").nth(card).locator("dd").nth(0).filter(has_text=re.compile(r"\d ms")).wait_for()
    rows = page.locator(".card").nth(card).locator(".overlay > div")
    return dict(tuple(text.split("\n")) for text in rows.all_inner_texts())


def tick(page, *titles):
    """Tick these backends and no others."""
    for box in page.locator("#backends input:not(:disabled)").all():
        box.set_checked(box.get_attribute("data-title") in titles)


def test_a_drawn_digit_is_told_and_timed_and_another_backend_has_another_overlay(visit):
    page = visit("/?model=digits_cnn")
    tick(page, "ONNX Runtime (CPU)")
    draw(page)
    assert page.locator(".top li .label").first.inner_text(timeout=60_000) == "7"
    first = figures(page)
    assert first.keys() == {
        *("inference", "pre-processing", "post-processing", "end to end", "end-to-end fps"),
        *("P50", "P90", "P99", "memory", "calls"),
    }
    assert first["P90"] == "needs 20 calls" and first["memory"].endswith(" MB")
    assert re.fullmatch(r"Verified on the sample input · loaded in [\d.]+ ms", page.inner_text(".proof"))
    tick(page, "OpenVINO")
    page.get_by_role("heading", name="OpenVINO").wait_for()
    second = figures(page)
    assert page.locator(".card").count() == 1 and page.locator(".top li .label").first.inner_text() == "7"
    assert second["inference"] != first["inference"] and second["calls"] == "1"
    assert "on=" in page.url and page.locator(".live .line").get_attribute("points")


def test_side_by_side_they_say_how_they_differ(visit):
    page = visit("/?model=digits_cnn")
    tick(page, "ONNX Runtime (CPU)", "OpenVINO", "XNNPACK (CPU)")
    draw(page)
    page.locator(".card").nth(2).locator(".top li").first.wait_for(timeout=60_000)
    assert page.locator(".card").count() == 3
    told = page.locator(".apart").all_inner_texts()
    assert not any("P50" in text for text in told), "one call shows no order"
    looks = page.locator(".card .key .mark").evaluate_all("(all) => all.map((one) => one.getAttribute('class'))")
    assert looks == ["mark s3", "mark s4", "mark s2"], "as in every report"
    assert all(re.search("differs from ONNX|the same numbers as ONNX", text) for text in told[1:])


def test_the_lowest_median_is_named_when_the_calls_can_show_it(visit):
    page = visit("/?model=linear_regression")
    tick(page, "ONNX Runtime (CPU)", "OpenVINO")
    page.check("#again")
    page.click("#run")
    page.locator(".apart", has_text="lowest P50 here").first.wait_for(timeout=60_000)
    page.uncheck("#again")
    page.locator("#run:not([aria-busy])").wait_for()
    calls = [int(figures(page, card)["calls"]) for card in (0, 1)]
    told = page.locator(".apart").all_inner_texts()
    assert min(calls) >= 20 and sum("lowest P50 here" in text for text in told) == 1
    assert (
        sum(bool(re.search(r"\d\.\d\d × the lowest P50|no difference from the lowest P50 yet", t)) for t in told) == 1
    )


def test_the_page_begins_with_the_paper_and_a_hint_on_a_backend_that_people_ship(visit, served):
    for viewport in (PHONE, {"width": 1400, "height": 900}):
        page = visit("/?model=digits_cnn", viewport=viewport)
        place = page.locator("#drawing").bounding_box()
        assert place["y"] + place["height"] <= viewport["height"] * 0.8
        assert page.locator(".card .answer").inner_text() == "Draw a digit, or run the sample input."
        assert not page.locator(".card .overlay").is_visible()
    key = page.locator("#backends input:checked").get_attribute("value")
    assert key == served.keys("digits_cnn")["onnxruntime.cpu"]
    page = visit("/?model=linear_regression")
    titles = page.locator("#backends input:not(:disabled)[name=on]").evaluate_all(
        "(all) => all.map((e) => e.dataset.title)"
    )
    assert set(titles[-2:]) == {"Portable (Reference)", "PyTorch eager"}, "kernels that are not to be fast come last"


def test_a_file_that_cannot_be_read_clears_the_old_answer(visit):
    page = visit("/?model=digits_cnn")
    page.set_input_files("#file", {"name": "seven.png", "mimeType": "image/png", "buffer": seven()})
    page.locator(".top li").first.wait_for(timeout=60_000)
    page.set_input_files("#file", {"name": "broken.png", "mimeType": "image/png", "buffer": b"no picture"})
    page.locator(".card .answer [role=alert]", has_text="broken.png").wait_for()
    assert page.locator(".top li").count() == 0 and page.inner_text("#said") == ""
    page.said.clear()  # the browser names the picture, too


def test_again_and_again_fills_percentiles_and_chart(visit):
    page = visit("/?model=linear_regression")
    tick(page, "ONNX Runtime (CPU)")
    page.check("#again")
    page.click("#run")
    page.locator(".overlay dd:not(.few)").nth(6).filter(has_text="ms").wait_for(timeout=60_000)
    page.uncheck("#again")
    found = figures(page)
    assert float(found["P50"].split()[0]) <= float(found["P90"].split()[0]) and int(found["calls"]) >= 20
    assert float(found["end-to-end fps"]) > 0 and float(found["end to end"].split()[0]) > float(
        found["inference"].split()[0]
    )
    assert len(page.locator(".live .line").get_attribute("points").split()) >= 20


def test_sliders_move_the_answer(visit):
    page = visit("/?model=linear_regression")
    page.click("#run")
    assert page.inner_text(".numbers").startswith("2.718")
    page.locator(".sliders input").first.press("End")
    page.locator(".numbers").filter(has_not_text="2.718").wait_for()
    assert page.locator(".sliders output").first.inner_text() != "1.00"


def test_an_uploaded_picture_is_told(visit):
    page = visit("/?model=digits_cnn")
    page.set_input_files("#file", {"name": "seven.png", "mimeType": "image/png", "buffer": seven()})
    assert page.locator(".top li .label").first.inner_text(timeout=60_000) == "7"


def test_a_crash_is_shown_and_the_server_lives(visit, served):
    page = visit("/?model=linear_regression")
    tick(page, "Portable (Reference)", "OpenVINO")
    page.click("#run")
    page.locator(".card").nth(1).locator(".numbers").wait_for(timeout=60_000)
    os.kill(served.state.benches.pid(served.keys("linear_regression")["executorch.portable"]), signal.SIGKILL)
    page.click("#run")
    alert = page.get_by_role("alert")
    alert.wait_for()
    assert "SIGKILL" in alert.inner_text() and page.locator(".card.failed .outcome").inner_text() == "CRASHED"
    assert page.locator(".card:not(.failed) .numbers").inner_text().startswith("2.718")
    page.click("#run")
    page.locator(".card.failed").wait_for(state="detached", timeout=60_000)


@pytest.fixture
def runtime():
    """Bring onnxruntime-web."""
    needs.program("npm")
    bring("browser")


def test_this_browser_runs_the_model_itself_and_agrees_with_the_server(visit, runtime):
    page = visit("/?model=digits_cnn")
    tick(page, "ONNX Runtime (CPU)", "This browser (WebAssembly)")
    draw(page)
    page.locator(".card").nth(1).locator(".top li").first.wait_for(timeout=60_000)
    assert page.locator(".top li:first-child .label").all_inner_texts() == ["7", "7"]
    told = page.locator(".apart").nth(1).inner_text()
    worst = re.search(r"differs from ONNX Runtime \(CPU\) by (\S+)|the same numbers", told)
    assert worst and float(worst[1] or 0) < 1e-4
    assert figures(page, 1)["memory"] == "–"


def test_this_browser_alone_runs_without_a_backend(visit, runtime, served):
    page = visit("/?model=linear_regression")
    tick(page, "This browser (WebAssembly)")
    before = served.ask("GET", "/metrics")[2]
    page.click("#run")
    page.locator(".numbers").wait_for(timeout=60_000)
    assert page.inner_text(".numbers").startswith("2.718") and page.evaluate("crossOriginIsolated")
    assert served.ask("GET", "/metrics")[2] == before


def test_what_cannot_run_here_is_grey_with_its_reason(visit):
    page = visit("/?model=digits_cnn")
    page.locator(".absent summary").click()
    row = page.locator(".tick.off", has_text="PyTorch eager")
    assert row.locator("input").is_disabled()
    assert "cross-backend export digits_cnn --backends torch.eager" in row.inner_text()


def test_all_works_by_keyboard(visit):
    page = visit("/?model=digits_cnn")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the content"
    page.focus("#drawing")
    for keys in (["Space"], ["ArrowDown"] * 15, ["Space"]):  # a one
        for key in keys:
            page.keyboard.press(key)
    assert page.locator(".top li .label").first.inner_text(timeout=60_000) in {"1", "7"}
    page.focus("#clear")
    page.keyboard.press("Enter")
    page.focus("#run")
    page.keyboard.press("Enter")
    page.locator("#said", has_text="no input yet").wait_for()


def test_the_model_is_chosen_in_the_page_and_kept_in_the_address(visit):
    page = visit("/")
    with page.expect_navigation():
        page.select_option("#model", "linear_regression")
    assert "model=linear_regression" in page.url and page.locator(".sliders input").count() == 4


def test_studies_are_found_read_and_followed(visit):
    page = visit("/results")
    assert page.locator("tbody tr").count() == 3
    cells = page.locator("tbody tr").first.locator("td").all_inner_texts()
    assert cells[:3] == ["3 nightly", "linear_regression", "ONNX Runtime (CPU)"] and cells[3] and "20" in cells[4]
    page.fill("[name=find]", "onnx runtime")
    page.keyboard.press("Enter")
    page.wait_for_url("**find=onnx*")
    assert page.locator("tbody tr").count() == 3
    page.fill("[name=find]", "no such")
    page.keyboard.press("Enter")
    page.wait_for_url("**find=no+such*")
    assert page.locator("tbody tr").count() == 0
    page.goto(page.url.partition("?")[0])
    page.locator("tbody a").first.click()
    page.wait_for_url("**/results/3")
    assert page.locator(".ranking tbody tr.ranked").count() == 2
    charts = page.evaluate(CHARTS)
    assert len(charts) >= 4
    for chart in charts:
        assert chart["marks"] and chart["width"] > 100 and not chart["broken"] and not chart["outside"], chart
    page.locator("#history a", has_text="OpenVINO").click()
    page.wait_for_url("**/history**")
    (chart,) = page.evaluate(CHARTS.replace('svg.closest("section").id', '""'))
    assert chart["marks"] and not chart["broken"] and not chart["outside"]
    assert page.locator("td", has_text="change point").count() == 1


def test_two_studies_are_compared_from_a_phone(visit):
    page = visit("/results", viewport=PHONE)
    page.select_option("[name=before]", "1")
    page.get_by_role("button", name="Compare studies").click()
    page.wait_for_url("**/results/diff**")
    assert page.locator("tr", has_text="openvino").locator("td", has_text="slower").count() == 1


def test_a_report_is_downloaded(visit):
    page = visit("/results/3")
    with page.expect_download() as waiting:
        page.get_by_role("link", name="report.html").click()
    assert waiting.value.suggested_filename == "study-3-report.html"


def test_an_artifacts_operations_tell_where_they_went_and_what_they_take(visit, served):
    """By keyboard; what an operation took stands there once it was measured."""
    key = served.keys("digits_cnn")["executorch.xnnpack"]
    page, rows = visit(f"/artifacts/{key}"), served.get(f"/artifacts/{key}/operations.json")["operations"]
    assert {one["name"] for one in rows} >= {"conv2d", "linear"}
    assert page.locator("svg.graph [data-op]").count() == page.locator("#as-table tbody tr").count() == len(rows)
    page.locator("svg.graph [data-op]").first.focus()
    page.keyboard.press("Enter")
    told = page.locator("#told")
    assert told.locator("dd").all_inner_texts() == ["conv2d", "0", "inside", "no line but torch's own", "not measured"]
    page.click("#profile")
    told.get_by_text(re.compile(r"\d\.\d %$")).wait_for(timeout=120_000)


def test_an_artifact_shows_what_is_where(visit, served):
    page = visit(f"/artifacts/{served.keys('digits_cnn')['executorch.xnnpack']}")
    assert page.locator("svg.chart rect").count() >= 3
    assert "XnnpackBackend × 1" in page.inner_text("main")
    page.click("#profile")
    page.locator("#times tbody tr").first.wait_for(timeout=120_000)
    shares = [float(text.split()[0]) for text in page.locator("#times td:nth-child(5)").all_inner_texts()]
    assert sum(shares) == pytest.approx(100, abs=0.1 * len(shares)) and shares == sorted(shares, reverse=True)
    page.get_by_role("link", name="Open in playground").click()
    page.wait_for_url("**/?model=digits_cnn**")
    assert page.locator("#backends input:checked").get_attribute("data-title") == "XNNPACK (CPU)"


def test_artifacts_are_grouped_and_filtered_and_reasons_are_short(visit):
    page = visit("/artifacts")
    assert page.locator("h2").all_inner_texts() == ["digits_cnn", "linear_regression"]
    assert re.fullmatch(r"20\d\d-\d\d-\d\d \d\d:\d\d", page.locator("td[data-header=made]").first.inner_text())
    page.fill("[name=find]", "xnnpack")
    page.get_by_role("button", name="Filter").click()
    page.wait_for_url("**find=xnnpack")
    assert page.locator("tbody tr").count() == 2
    assert short("needs an NVIDIA GPU and its driver (/dev/nvidiactl is not here); install it") == (
        "needs an NVIDIA GPU and its driver"
    )
    assert short("x" * 30 + " " + "y" * 30) == "x" * 30 + " …"


@pytest.mark.parametrize(("name", "title"), GUIDES.items())
def test_guides_stand_alone_and_name_each_other(name, title, visit):
    page = visit(f"/guides/{name}")
    assert page.inner_text("h1") == title and page.locator(".links a").count() == len(GUIDES) - 1
    for link in page.locator(".guide a").evaluate_all("(all) => all.map((one) => one.getAttribute('href'))"):
        assert link.removesuffix(".md") in GUIDES
    page.goto(page.url.replace(name, "reading.md"))
    assert page.inner_text("h1") == "How to read a report"


FOLLOWED = HISTORY.replace("/api/studies", "/results") + TARGETS[1]
PAGES = [
    "/?model=digits_cnn",
    "/?model=linear_regression",
    "/results",
    "/results/3",
    "/matrix",
    FOLLOWED,
    "/results/diff?before=1&after=3",
    "/artifacts",
    "/guides/reading",
    "/artifacts/{key}?open=0",
    "/no-such-page",
]
AXE = """async (rules) => {
  const found = await axe.run(document, { resultTypes: ["violations"], ...(rules && { runOnly: rules }) });
  return found.violations.filter(({ impact }) => ["serious", "critical"].includes(impact))
    .map(({ id, nodes }) => `${id}: ${nodes.map((one) => one.html.slice(0, 120)).slice(0, 3).join(" | ")}`);
}"""


def test_every_page_is_readable_named_and_fits_a_phone_in_light_and_dark(visit, served):
    """By our own looks, and by axe where npm can bring it; one page of one browser goes everywhere."""
    axe = (bring("axe") / "axe.min.js").read_text(encoding="utf-8") if shutil.which("npm", path=needs.where()) else ""
    page, key = visit("/results", viewport=PHONE, reduced_motion="reduce"), served.keys("digits_cnn")[TARGETS[0]]
    for path in PAGES:
        page.goto(served.url + path.format(key=key))
        if path.startswith("/?"):
            page.click("#sample")
            page.locator(".card .overlay dd", has_text="MB").first.wait_for(timeout=60_000)
        assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"], path
        assert page.evaluate(UNNAMED) == [], path
        assert page.locator("h1").count() == 1 and page.get_attribute("html", "lang") == "en", path
        page.evaluate(axe)  # by the debugger's protocol, which the page's policy does not bind
        for scheme, rules in (("light", None), ("dark", ["color-contrast"])):
            page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
            low = {kind: ratio for kind, ratio in page.evaluate(CONTRAST).items() if ratio < 4.5}
            assert low == {}, (path, scheme)
            assert not axe or page.evaluate(AXE, rules) == [], (path, scheme)
    page.evaluate("document.querySelector('main').append(document.createElement('input'))")
    assert not axe or page.evaluate(AXE, None)[0].startswith("label:"), "it sees a barrier where there is one"
    page.said[:] = [text for text in page.said if "404" not in text]  # of the page that was asked for in vain


def test_the_first_page_is_small_and_soon_there(browser, served):
    with contextlib.closing(browser.new_context(viewport=DESK)) as context:
        page, sizes = context.new_page(), []
        page.on("response", lambda answer: sizes.append(int(answer.headers.get("content-length", 0))))
        page.goto(f"{served.url}/?model=digits_cnn", wait_until="load")
        assert len(sizes) >= 6 and 10_000 < sum(sizes) <= MOST_BYTES
