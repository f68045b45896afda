"""Pages to browse, in a real browser: studies, reports, artifacts and guides."""

import re

import pytest

from cross_backend.web.pages import GUIDES, short
from tests.browser import PHONE
from tests.e2e.test_report_browser import CHARTS


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


def test_columns_are_chosen_and_stay_chosen(visit):
    page = visit("/results/3")
    ranking = page.locator("table.ranking").first
    heads = ranking.locator("thead th")
    names = heads.all_inner_texts()
    chooser = page.locator("details.columns").first
    chooser.locator("summary").click()
    assert chooser.locator("label").all_inner_texts() == names[2:], "rank and backend say which row it is"
    chooser.get_by_label("size").uncheck()
    page.reload()
    shown = [name for name, head in zip(names, heads.all(), strict=True) if head.is_visible()]
    assert shown == [name for name in names if name != "size"]
    assert not ranking.locator("td[data-header=size]").first.is_visible()
    page.locator("details.columns summary").first.click()
    page.locator("details.columns").first.get_by_label("size").check()
    assert heads.nth(names.index("size")).is_visible()


def test_two_studies_are_compared_from_a_phone(visit):
    page = visit("/results", viewport=PHONE)
    page.select_option("[name=before]", "1")
    page.get_by_role("button", name="Compare studies").click()
    page.wait_for_url("**/results/diff**")
    assert page.locator("tr", has_text="openvino").locator("td", has_text="slower").count() == 1
    (chart,) = page.evaluate(CHARTS.replace('svg.closest("section").id', '""'))
    assert chart["marks"] and not chart["broken"] and not chart["outside"]


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
    words = ["conv2d", "0", "delegated", "no line but torch's own", "not measured"]
    assert told.locator("dd").all_inner_texts() == words
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
