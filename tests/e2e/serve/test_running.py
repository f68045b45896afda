"""The studies that commands run: the results page follows them by the server's events."""

import re

import pytest

from cross_backend.cache import Cache
from cross_backend.report.progress import Show
from cross_backend.store.database import Database
from cross_backend.study.published import publishing


@pytest.mark.slow
def test_the_page_shows_each_machine_and_what_waits_for_what(visit, served, db):
    page = visit("/results")
    running = page.locator("#running")
    assert running.is_hidden() and served.get("/api/progress") == {"studies": []}
    with publishing(Cache(), "fleet <b>", Database.named(str(db)).digest, Show()) as show:
        show("class pi", "class pi: 0 of 2 panels, no machine, 2 wait for a machine", 0.0)
        show("study", "2 of 4 panels, 1 machines", 0.5, "2 min")
        show.note("⚠️ class pi has no machine now")
        running.get_by_text("class pi has no machine now").wait_for(timeout=30_000)
        assert running.get_by_role("heading", name="fleet <b>").is_visible()
        first, second = running.locator("li").all()
        assert re.search(r"2 of 4 panels, 1 machines\s+about 2 min left", first.inner_text())
        assert "2 wait for a machine" in second.inner_text() and first.locator("progress").count() == 1
        other = visit("/results")
        other.locator("#running li").first.wait_for(timeout=30_000)
        (found,) = served.get("/api/progress")["studies"]
        assert found["study"] == "fleet <b>" and found["lines"][0]["share"] == 0.5
    running.wait_for(state="hidden", timeout=30_000)
