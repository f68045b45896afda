"""Columns of a report's wide tables: chosen by keyboard, kept by the browser, never cut on a narrow screen."""

import pytest

from cross_backend.report import html
from tests.browser import DESK
from tests.e2e.test_report_browser import overflow
from tests.unit.report import studies

NARROW = {"width": 420, "height": 800}
CUT = """() => [...document.querySelectorAll("table")].filter((table) => table.checkVisibility()).filter((table) => {
  const outer = table.closest(".scroll"), box = table.getBoundingClientRect(), room = outer.getBoundingClientRect();
  const reached = ["auto", "scroll"].includes(getComputedStyle(outer).overflowX) || box.right <= room.right + 1;
  return !reached || room.right > document.documentElement.clientWidth + 1;
}).map((table) => table.closest(".scroll").getAttribute("aria-label"))"""
"""Names of tables of which a part can be neither seen nor scrolled to."""


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    path = tmp_path_factory.mktemp("columns") / "report.html"
    html.write(studies.study(studies.panel()), path)
    return path


def chooser_of(page):
    return page.locator("#ranking details.columns").first


def test_columns_are_chosen_by_keyboard_and_stay_chosen(visit, report):
    page = visit(report)
    table, chooser = page.locator("table.ranking"), chooser_of(page)
    heads = table.locator("thead th")
    names = heads.all_inner_texts()
    chooser.locator("summary").focus()
    page.keyboard.press("Enter")
    assert chooser.locator("label").all_inner_texts() == names[2:], "rank and backend say which row it is"
    page.keyboard.press("Tab")
    page.keyboard.press("Space")
    assert not chooser.get_by_label(names[2]).is_checked()
    again = page.context.new_page()
    again.goto(page.url)
    for shown in (heads, again.locator("table.ranking thead th")):
        assert [one.is_visible() for one in shown.all()] == [name != names[2] for name in names]
    assert not again.locator("table.ranking td[data-header=ratio]").first.is_visible()
    again.close()
    page.keyboard.press("Space")
    assert all(head.is_visible() for head in heads.all())


def test_each_choice_names_its_table(visit, report):
    page = visit(report)
    page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
    choosers = page.locator("details.columns")
    named = [one.get_attribute("aria-label") for one in choosers.locator("summary").all()]
    tables = page.locator(".scroll:has(+ details.columns)")
    assert named == [f"Columns: {one.get_attribute('aria-label')}" for one in tables.all()] and len(named) > 3
    assert page.get_by_label("size", exact=True).first.is_checked()
    assert all(table.locator("thead th").count() > 5 for table in tables.all())


@pytest.mark.parametrize("viewport", [DESK, NARROW], ids=["desk", "narrow"])
def test_no_table_is_cut_whichever_columns_are_shown(visit, report, viewport):
    page = visit(report, viewport=viewport)
    page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
    assert page.evaluate(CUT) == [] and overflow(page) <= 0
    for tick in chooser_of(page).locator("input").all():
        tick.uncheck()
    assert page.evaluate(CUT) == [] and overflow(page) <= 0
    assert page.locator("table.ranking tr.ranked > :visible").count() == 2 * page.locator("tr.ranked").count()


def test_a_browser_that_keeps_nothing_and_paper(visit, report):
    page = visit(report)
    page.evaluate("Object.defineProperty(window, 'localStorage', { get() { throw new Error('none'); } })")
    chooser = chooser_of(page)
    chooser.locator("summary").click()
    chooser.get_by_label("size").uncheck()
    assert not page.locator("table.ranking td[data-header=size]").first.is_visible()
    page.emulate_media(media="print")
    assert not chooser.is_visible()
