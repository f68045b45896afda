"""The playground in a real browser: play, switch, compare, crash; silent, and asking nobody else."""

import os
import re
import signal

import pytest

from tests import needs
from tests.browser import PHONE
from tests.e2e.serve.test_api import seven
from tests.e2e.serve.visits import draw, figures, tick
from tests.runtimes import bring


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


@pytest.mark.slow
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


@pytest.mark.slow
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


@pytest.mark.slow
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
