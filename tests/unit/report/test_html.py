"""HTML: one file, no request, everything escaped, its samples inside, and never half written."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
import sys
import zlib
from array import array
from collections.abc import Callable
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

from cross_backend.errors import ReportError
from cross_backend.measurement import Measurement
from cross_backend.records import Outcome, Result, StudyResults
from cross_backend.report import html, raw, verdicts
from cross_backend.report.views import views
from tests.unit.conftest import room
from tests.unit.report import studies

HOSTILE = "</script><script>alert(1)</script><!-- \"'`&amp; 🦀 \u202e \x00\x1b \udcff " + "x" * 500


class Page(HTMLParser):
    """Elements of a page, the texts of its scripts and styles, and all other text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: dict[str, str] = {}
        self.shown = ""
        self._open = ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        self._open = f"{tag} {dict(attrs).get('id', '')}".strip() if tag in {"script", "style"} else ""

    def handle_endtag(self, tag: str) -> None:
        if tag in {"script", "style"}:
            self._open = ""

    def handle_data(self, data: str) -> None:
        if self._open:
            self.texts[self._open] = self.texts.get(self._open, "") + data
        else:
            self.shown += data

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.elements if name == tag]


def written(results: StudyResults, folder: Path) -> Page:
    html.write(results, folder / "report.html")
    return Page((folder / "report.html").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Page:
    return written(studies.study(), tmp_path_factory.mktemp("page"))


def test_it_asks_for_nothing(page: Page) -> None:
    for tag, attributes in page.elements:
        assert not {"src", "srcset", "action", "formaction", "background", "poster", "style"} & set(attributes), tag
        assert not [name for name in attributes if name.startswith("on")], tag
        for name in ("href", "xlink:href"):
            where = attributes.get(name) or "#"
            followed = tag == "a" and where.startswith(html.DOCUMENTATION)  # by a reader, who chooses to
            assert where.startswith("#") or where == "data:," or followed
    assert not re.search(r"url\((?!#)|@import|@font-face", page.texts["style"])
    assert not re.search(
        r"\bfetch\b|XMLHttpRequest|WebSocket|import\(|sendBeacon|\beval\b|innerHTML", page.texts["script"]
    )


def test_the_policy_lets_in_its_own_style_and_script_only(page: Page) -> None:
    (policy,) = (m["content"] for m in page.all("meta") if m.get("http-equiv") == "Content-Security-Policy")
    assert policy is not None and policy.startswith("default-src 'none'; ") and "unsafe" not in policy
    for tag in ("style", "script"):
        digest = base64.b64encode(hashlib.sha256(page.texts[tag].encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}'" in policy
    assert "connect-src" not in policy  # default-src forbids it


def test_it_has_the_choice_of_columns_that_the_pages_of_the_server_have(page: Page) -> None:
    assert html.template_text("columns.js") in page.texts["script"]
    assert page.texts["script"].count("localStorage") == 2, "it keeps nothing else"


def test_it_has_all_chapters(page: Page) -> None:
    found = [attributes["id"] for attributes in page.all("section")]
    assert found == [
        "summary", "ranking", "latency", "ratio", "batch", "frontier", "cold-start", "throughput", "memory", "energy",
        "placement", "machine", "warnings", "again", "reading",
    ]  # fmt: skip
    assert [a["href"] for a in page.all("a")][: len(found)] == [f"#{key}" for key in found]
    places = {attributes["id"] for _, attributes in page.elements if "id" in attributes}
    links = [a["href"] or "" for a in page.all("a")]
    assert {link.removeprefix("#") for link in links if link.startswith("#")} <= places
    assert [link for link in links if not link.startswith("#")] == [f"{html.DOCUMENTATION}/reading.md"]


def test_what_decides_stands_beside_the_median_and_the_rest_in_details(tmp_path: Path) -> None:
    results = studies.study(studies.with_task(studies.panel()))
    row = html.study_parts(results)["rankings"][0][1][0]
    headers = [cell["header"] for cell in row["cells"]]
    assert headers == ["rank", "backend", "ratio", "median", "top-1 accuracy", "max error", "SQNR dB", "size"]
    assert [name for name, _ in row["details"]] == [
        *("P90", "P99", "P99.9", "runs", "coverage", "on device", "precision", "load")
    ]
    shown = written(results, tmp_path).shown
    assert all(text in shown for _, text in row["details"])


def test_nothing_disappears(page: Page) -> None:
    for panel in studies.study().panels:
        for result in panel.results:
            assert result.title in page.shown
            assert (result.reason or "") in page.shown
    assert "is detected with 95 % power" in page.shown and "no counter is readable here" in page.shown
    for text in ("AMD EPYC 7R13", "2.13.0", "margin", "stolen by other virtual machines", "needs n ≥"):
        assert text in page.shown


def test_the_verdict_comes_first_and_each_reason_once(tmp_path: Path) -> None:
    panel = studies.panel()
    absent = [Result("net", name, name, Outcome.UNAVAILABLE, "there is no NVIDIA driver") for name in ("CUDA", "TRT")]
    results = studies.study(replace(panel, results=(*panel.results, *absent)))
    shown = " ".join(written(results, tmp_path).shown.split())
    assert verdicts.ship(panel) in shown and verdicts.lead(panel) in shown
    texts = (verdicts.ship(panel), verdicts.resolution([panel]), "rankbackendratio", "CUDA, TRT")
    places = [shown.index(text) for text in texts]
    assert places == sorted(places) and shown.count("NVIDIA driver") == 1


def test_samples_come_back_as_they_were(page: Page) -> None:
    index = json.loads(page.texts["script raw-index"])
    shown = views(studies.study())
    assert [panel["label"] for panel in index] == [view.label for view in shown]
    kinds = {a.get("id"): a.get("data-kind") for a in page.all("script")}
    for panel, view in zip(index, shown, strict=True):
        assert [series["title"] for series in panel["series"]] == [row.label for row in view.timed]
        for series, row in zip(panel["series"], view.timed, strict=True):
            assert row.result.latency is not None and kinds[series["id"]] == "u4"
            planes = zlib.decompress(base64.b64decode(page.texts[f"script {series['id']}"]))
            found = np.frombuffer(planes, np.uint8).reshape(4, -1).T.copy().view("<u4").ravel()
            assert found.tolist() == list(row.result.latency.values)
            assert series["rounds"] == [len(r) for r in row.result.latency.rounds]


@pytest.mark.parametrize(
    ("values", "kind"),
    [((1, 2**32 - 1), "u4"), ((1, 2**32), "f8"), ((1.5, 2.0), "f8"), ((1.0, 2.0), "u4"), ((-1, 2), "f8"), ((), "u4")],
)
def test_numbers_take_the_room_that_they_need(values: tuple[float, ...], kind: str) -> None:
    found, text = raw.encoded(Measurement("latency", "ns", (values,)))
    size = int(found[1])
    planes = np.frombuffer(zlib.decompress(base64.b64decode(text)), np.uint8).reshape(size, -1)
    assert found == kind
    assert planes.T.copy().view(f"<{found}").ravel().tolist() == list(values)


def test_hostile_names_stay_text(tmp_path: Path) -> None:
    results = studies.study(name=HOSTILE)
    panel = results.panels[0]
    rows = [replace(r, title=f"{HOSTILE}{i}", reason=HOSTILE, warnings=(HOSTILE,)) for i, r in enumerate(panel.results)]
    hostile = replace(panel, workload=HOSTILE, results=tuple(rows), warnings=(HOSTILE,), settings={HOSTILE: HOSTILE})
    changed = replace(results, panels=(hostile, *results.panels[1:]), versions={HOSTILE: HOSTILE})
    page = written(replace(changed, settings={HOSTILE: [HOSTILE]}), tmp_path)
    plain = written(results, tmp_path)
    count = [a for a in page.all("script") if a.get("type") is None]
    assert len(count) == 1
    assert page.texts["script"] == plain.texts["script"]
    assert "<script>alert(1)</script>" in page.shown and "🦀" in page.shown
    assert json.loads(page.texts["script raw-index"])[0]["workload"] == HOSTILE
    assert {tag for tag, _ in page.elements} == {tag for tag, _ in plain.elements}


def all_failed() -> StudyResults:
    rows = tuple(Result("net", f"b{i}", f"B{i}", Outcome.RUN_FAIL, "it crashed") for i in range(3))
    return studies.study(replace(studies.panel(targets=0), results=rows, noise_floor=None))


EMPTY = {"latency": "Latency distributions", "batch": "Batch scaling", "energy": "Power and energy", "memory": "Memory"}
"""Chapters that may have nothing to show; one line at the end says so."""


@pytest.mark.parametrize(
    ("results", "text"),
    [
        (replace(studies.study(), panels=(), finished=False), "No panel was begun"),
        (studies.study(studies.panel(targets=1)), "the only backend verified and measured"),
        (all_failed(), "Ship none of these"),
        (replace(studies.study(replace(studies.panel(), interrupted=True)), finished=False), "interrupted"),
        (studies.study(replace(studies.panel(), results=())), "This panel has no target"),
        (replace(studies.study(), finished=False), "not finished"),
    ],
    ids=["empty", "one target", "all failed", "interrupted", "no target", "unfinished"],
)
def test_a_study_that_ended_early_is_a_page_too(results: StudyResults, text: str, tmp_path: Path) -> None:
    page = written(results, tmp_path)
    assert text in page.shown
    chapters = {attributes["id"] for attributes in page.all("section")}
    assert chapters >= {"summary", "ranking", "machine", "again", "reading"}
    missing = [title for key, title in EMPTY.items() if key not in chapters]
    assert all(f"{title}: " in page.shown for title in missing) and ("empty" in chapters) == bool(missing)
    for name in ("nan", "None", "Undefined"):
        assert not re.search(rf"\b{name}\b", page.shown)


def test_what_was_not_measured_is_said(tmp_path: Path) -> None:
    shown = written(all_failed(), tmp_path).shown
    for text in ("Memory was not measured", "No latency was measured", "Cold starts were not measured"):
        assert text in shown


def test_a_finished_page_is_replaced_whole_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    path.write_text("old")
    broken = studies.panel(targets=1)
    (good, *_rest) = broken.results
    bad = replace(good, latency=Measurement("latency", "ns", ((object(),),)))  # type: ignore[arg-type]
    with pytest.raises((TypeError, ValueError)):
        html.write(studies.study(replace(broken, results=(bad,))), path)
    assert path.read_text() == "old"
    html.write(studies.study(studies.panel(targets=1)), path)
    assert path.read_text(encoding="utf-8").startswith("<!DOCTYPE html>")
    assert [p.name for p in tmp_path.iterdir()] == ["report.html"]
    if os.name == "posix":
        (tmp_path / "other").touch()
        assert path.stat().st_mode == (tmp_path / "other").stat().st_mode


def test_an_unwritable_place_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for place in (tmp_path / "absent" / "r.html", tmp_path / "file" / "r.html", tmp_path, tmp_path / ("x" * 300)):
        with pytest.raises(ReportError, match=r"cannot write .*; name a file in a folder"):
            html.write(studies.study(studies.panel(targets=1)), place)
    assert [p.name for p in tmp_path.iterdir()] == ["file"]


def test_a_full_disk_is_named(tmp_path: Path) -> None:
    with pytest.raises(ReportError, match="File too large"), room(1000):
        html.write(studies.study(studies.panel(targets=1)), tmp_path / "r.html")
    assert not list(tmp_path.iterdir())


SCALE = r"""
import json, re, sys
from array import array
from dataclasses import replace
from pathlib import Path
import numpy as np
sys.path.insert(0, sys.argv[1])
from cross_backend.measure.statistics import latency_ms
from cross_backend.measurement import Measurement
from cross_backend.report import document, html, markdown
from tests.unit.report import studies
random = np.random.default_rng(0)
panels = []
for batch in (1, 8):
    panel, rows = studies.panel(batch=batch, targets=5), []
    for result in panel.results[:5]:
        noise = (2e6 * random.lognormal(0, 0.2, (100, 10_000))).astype(np.int64)
        rounds = tuple(array("q", row.tobytes()) for row in noise)
        rows.append(replace(result, latency=Measurement("latency", "ns", rounds)))
    panels.append(replace(panel, results=tuple(rows)))
results = studies.study(*panels)
html.write(results, Path(sys.argv[2]))
text, value = markdown.text(results), json.dumps(document.document(results))
count = sum(r.latency.count for p in panels for r in p.results)
peak_kb = re.search(r"VmHWM:\s+(\d+)", Path("/proc/self/status").read_text())[1]  # ru_maxrss is inherited
print(json.dumps([count, int(peak_kb) * 1024]))
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="peak memory is read as Linux tells it")
def test_ten_million_samples(run_python: Callable[..., str], tmp_path: Path) -> None:
    root = Path(__file__).parents[3]
    count, peak_bytes = json.loads(run_python(SCALE, str(root), str(tmp_path / "r.html")).splitlines()[-1])
    assert count == 10_000_000
    assert peak_bytes < 2**30
    assert (tmp_path / "r.html").stat().st_size < 60e6


def test_the_builder_keeps_samples_compact() -> None:
    assert isinstance(studies.latency(1.0, 0).rounds[0], array)
