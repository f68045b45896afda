"""Charts: drawn from the samples, finite, inside the picture, with names, and the numbers beside them."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from xml.etree import ElementTree as ET

import numpy as np
import pytest

from cross_backend.measurement import Measurement
from cross_backend.records import Panel, StudyResults
from cross_backend.report.charts import cost, latency, load
from cross_backend.report.charts.plots import NARROW, WIDTH, Chart, for_both
from cross_backend.report.charts.svg import Drawing, number, shortened, width_of
from cross_backend.report.distributions import MARKS, distribution
from cross_backend.report.looks import Look, look_of, looks
from cross_backend.report.sections import sections
from cross_backend.report.views import View, looks_of, views
from tests.unit.report import studies

PLACES = re.compile(r"-?\d+(?:\.\d+)?")


def charts(results: StudyResults) -> list[Chart]:
    return [
        chart for section in sections(results, views(results)) for block in section.blocks for chart in block.charts
    ]


def first(panel: Panel) -> View:
    return views(studies.study(panel))[0]


def coordinates(root: ET.Element) -> Iterator[tuple[float, float]]:
    """Give the points that marks are put on."""
    for mark in root.iter():
        got = mark.attrib
        if mark.tag == "line":
            yield float(got["x1"]), float(got["y1"])
            yield float(got["x2"]), float(got["y2"])
        elif mark.tag == "rect":
            yield float(got["x"]), float(got["y"])
            yield float(got["x"]) + float(got["width"]), float(got["y"]) + float(got["height"])
        elif mark.tag == "text" and "x" in got:
            yield float(got["x"]), float(got["y"])
        elif "transform" in got:
            x, y = PLACES.findall(got["transform"])[:2]
            yield float(x), float(y)
        elif mark.tag == "path":
            for word in re.findall(r"[MLHV][^MLHVZ]*", got["d"]):
                numbers = [float(n) for n in PLACES.findall(word)]
                yield (numbers[0], 0) if word[0] == "H" else (0, numbers[0]) if word[0] == "V" else tuple(numbers)


TINY = replace(studies.panel(targets=1), results=studies.panel(targets=1, runs=1).results[:1])
CONSTANT = Measurement("latency", "ns", ((1_000_000,) * 5,) * 6)
FLAT = replace(
    TINY, results=(replace(TINY.results[0], latency=CONSTANT), replace(TINY.results[0], title="b", latency=CONSTANT))
)
ZERO = replace(TINY, results=(replace(TINY.results[0], latency=Measurement("latency", "ns", ((0, 0, 1),) * 6)),))


@pytest.mark.parametrize(
    "results",
    [
        studies.study(),
        studies.study(studies.panel(targets=40), studies.panel(batch=4, targets=40)),
        studies.study(TINY),
        studies.study(FLAT),
        studies.study(ZERO),
        studies.study(studies.with_task(studies.panel())),
    ],
    ids=["normal", "many", "one sample a round", "constant", "clock too coarse", "task"],
)
def test_every_mark_is_finite_and_inside(results: StudyResults) -> None:
    found = charts(results)
    assert len(found) >= 4
    both = [(chart, *one) for chart in found for one in ((chart.svg, WIDTH), (chart.narrow, NARROW))]
    for chart, svg, wide in both:
        root = ET.fromstring(str(svg))
        assert "nan" not in re.sub(r"<(title|desc|text)\b.*?</\1>", "", str(svg)).lower()
        width, height = (float(n) for n in root.attrib["viewBox"].split()[2:])
        assert width == wide
        for x, y in coordinates(root):
            assert -0.01 <= x <= width + 0.01 and -0.01 <= y <= height + 0.01, chart.title
        names = [child.tag for child in root][:2]
        assert names == ["title", "desc"] and root[0].text and root[1].text
        assert chart.data.rows and {len(row) for row in chart.data.rows} == {len(chart.data.headers)}


def test_a_full_study_has_every_kind_of_chart() -> None:
    titles = " ".join(chart.title for chart in charts(studies.study()))
    for part in (
        "Share of calls", "Latency by target", "Ratio", "Latency against batch", "Inferences a second", "nothing to",
        "Throughput", "P50 latency against", "P99 latency against", "Memory", "SQNR against",
    ):  # fmt: skip
        assert part in titles


def test_axes_have_names_with_units() -> None:
    for chart in charts(studies.study()):
        labels = [e.text for e in ET.fromstring(str(chart.svg)).iter("text") if e.get("class") == "label"]
        assert labels, chart.title
    assert "latency, ms (logarithmic)" in str(charts(studies.study())[0].svg)


def test_a_distribution_is_that_of_the_samples() -> None:
    measurement = studies.latency(2.0, 3, runs=100)
    samples = np.concatenate([np.asarray(row) for row in measurement.rounds])
    found = distribution(measurement)
    assert found is not None and found.count == len(samples)
    wanted = np.percentile(samples, [100 * level for level in MARKS], method="inverted_cdf") / 1e6
    assert found.marks == pytest.approx(wanted, rel=1e-12)
    for level, value in zip(found.levels, found.values, strict=True):
        below = float(np.mean(samples <= value * 1e6 * (1 + 1e-12)))
        assert below >= level - 1e-9
    assert found.levels[-1] == 1.0 and found.values[-1] == samples.max() / 1e6
    assert max(share for _, share in found.density) == 1.0


def test_a_distribution_of_few_samples_has_them_all_and_no_density() -> None:
    found = distribution(Measurement("latency", "ns", ((3e6, 1e6), (), (2e6, math.inf))))
    assert found is not None
    assert (found.values, found.count, found.density) == ((1.0, 2.0, 3.0), 3, ())
    assert found.levels == pytest.approx((1 / 3, 2 / 3, 1.0))
    assert distribution(Measurement("latency", "ns", ((), ()))) is None


def test_many_targets_are_parted_and_none_is_lost() -> None:
    view = first(studies.panel(targets=20))
    found = latency.ecdfs(view, looks_of([view]))
    assert [chart.title[-12:] for chart in found] == [
        "(1 to 8 of 20)"[-12:],
        "(9 to 16 of 20)"[-12:],
        "17 to 20 of 20)"[-12:],
    ]
    assert [row[0] for chart in found for row in chart.data.rows] == [row.label for row in view.timed]
    assert len({row[0] for chart in found for row in chart.data.rows}) == 20


def test_series_differ_without_colour() -> None:
    view = first(studies.panel(targets=8))
    root = ET.fromstring(str(latency.ecdfs(view, looks_of([view]))[0].svg))
    lines = [e.get("class") for e in root.iter("path") if (e.get("class") or "").startswith("line")]
    assert len({re.sub(r"s\d", "", text or "") for text in lines}) == 8  # dashes
    shapes = {e.get("d") for e in root.iter("path") if (e.get("class") or "").startswith("mark")}
    assert len(shapes) == 8
    bars = str(cost.cold_start(view).svg)  # type: ignore[union-attr]
    assert {f"h{slot}" for slot in range(4)} <= set(re.findall(r"segment (h\d)", bars))


def test_a_target_keeps_its_look_in_all_panels() -> None:
    other = studies.panel(batch=8, targets=3)
    results = studies.study(studies.panel(targets=3), replace(other, results=other.results[::-1]))
    shown = views(results)
    found = looks_of(shown)
    for view in shown:
        svg = str(latency.ecdfs(view, found)[0].svg)
        assert re.search(rf'class="mark s{look_of("onnxruntime").colour}"><title>onnxruntime:', svg)


def test_a_look_is_that_of_the_target_on_every_page() -> None:
    """By the backend, wherever it stands in a list: a study of two has the looks of a study of seven, and of cards."""
    names = ("torch.eager", "executorch.portable", "executorch.xnnpack", "onnxruntime.cpu", "openvino")
    assert [look_of(name) for name in names] == [Look(i, i) for i in range(5)]
    assert looks([("O", "openvino"), ("X", "executorch.xnnpack")]) == {"O": Look(4, 4), "X": Look(2, 2)}
    int8 = look_of("executorch.xnnpack?precision=int8")
    assert int8.colour == 2 and int8.form != 2, "another precision is another line of the same colour"
    many = looks((f"Target {i}", f"vendor.target_{i}") for i in range(64))
    assert len(set(many.values())) == 64, "no two are alike"
    assert len(set(looks((str(i), "openvino") for i in range(70)).values())) == 64


@pytest.mark.parametrize("draw", [latency.boxes, latency.ratios])
def test_names_of_rows_stand_inside_on_a_phone(draw: Callable[..., Chart | None]) -> None:
    view = first(studies.panel())
    (chart,) = for_both(lambda: [draw(view, looks_of([view]))])
    wide, narrow = (ET.fromstring(str(svg)) for svg in (chart.svg, chart.narrow))

    def ticks(root: ET.Element) -> int:
        return sum(e.get("class") == "tick" and e.get("text-anchor") == "middle" for e in root.iter("text"))

    def names(root: ET.Element) -> list[str | None]:
        return [e.get("text-anchor") for e in root.iter("text") if e.text in studies.TITLES]

    assert ticks(narrow) < ticks(wide)
    assert set(names(wide)) == {"end"} and set(names(narrow)) == {"start"} and len(names(narrow)) == 7


def test_ratios_need_two_targets_and_show_the_band() -> None:
    def ratios(panel: Panel) -> Chart | None:
        view = first(panel)
        return latency.ratios(view, looks_of([view]))

    assert ratios(studies.panel(targets=1)) is None
    chart = ratios(studies.panel())
    assert chart is not None and 'class="band"' in chart.svg and "±5.7 %" in chart.note
    unknown = ratios(replace(studies.panel(), noise_floor=None))
    assert unknown is not None and 'class="band"' not in unknown.svg


def test_batches_need_two() -> None:
    def drawn(*panels: Panel) -> list[Chart]:
        shown = views(studies.study(*panels))
        return load.batches(shown, looks_of(shown))

    assert drawn(studies.panel(), studies.panel("other")) == []
    rate = drawn(studies.panel(), studies.panel(batch=8))[1]
    value = next(row for row in rate.data.rows if row[:2] == ("eager", "8"))[2]
    median = next(r.latency_ms for r in studies.panel(batch=8).results if r.title == "eager")
    assert median is not None and float(value.replace(",", "")) == pytest.approx(8000 / median.value, rel=1e-3)


def test_open_loop_percentiles_that_cannot_be_shown_say_what_they_need() -> None:
    panel = studies.panel(targets=1)
    few = Measurement("open_loop.50", "ns", ((1e6,) * 60,))
    view = first(replace(panel, results=(replace(panel.results[0], measurements=(few,)),)))
    found = load.open_loops(view, looks_of([view]))
    assert [chart.title for chart in found] == ["P50 latency against offered rate"]


def test_the_frontier_joins_what_none_beats() -> None:
    def frontier(panel: Panel) -> Chart | None:
        view = first(panel)
        return cost.frontier(view, looks_of([view]))

    chart = frontier(studies.panel())
    assert chart is not None
    best = {row[1] for row in chart.data.rows if row[-1] == "yes"}
    assert "XNNPACK int8" in best and "eager" in best and "IREE" not in best
    assert next(row for row in chart.data.rows if row[1] == "eager")[3] == "equal"
    task = frontier(studies.with_task(studies.panel()))
    assert task is not None and task.title == "top-1 accuracy against latency"
    assert {row[3] for row in task.data.rows} == {"91.0 %", "92.5 %"}


def test_where_smaller_is_better_the_smallest_is_the_highest() -> None:
    panel = studies.with_task(studies.panel())
    rows = tuple(
        replace(row, task={"perplexity": 4.5 if "int8" in row.title else 4.25}) if row.task else row
        for row in panel.results
    )
    view = first(replace(panel, results=rows))
    chart = cost.frontier(view, looks_of([view]))
    assert chart is not None and {row[3] for row in chart.data.rows} == {"4.5", "4.25"}
    best = {row[1] for row in chart.data.rows if row[-1] == "yes"}
    timed = sorted(view.timed, key=lambda row: row.result.rank or 0)
    assert timed[0].label in best, "nothing is faster"
    assert next(row.label for row in timed if row.result.task["perplexity"] == 4.25) in best
    ticks = [float(text) for text in re.findall(r">(4\.\d+)</text>", str(chart.svg))]
    assert ticks and ticks == sorted(ticks, reverse=True) and ">-4" not in str(chart.svg), "from the lowest up"


def test_ties_in_speed_are_beaten_by_accuracy_alone() -> None:
    rows = first(studies.panel()).timed[:4]
    ranks = [replace(row, result=replace(row.result, rank=rank)) for row, rank in zip(rows, (1, 1, 3, 4), strict=True)]
    assert cost.unbeaten(list(zip(ranks, (0.9, 0.9, 0.95, 0.95), strict=True))) == {0, 1, 2}, "equals stay together"
    assert cost.unbeaten(list(zip(ranks, (0.9, 0.91, 0.8, 0.95), strict=True))) == {1, 3}


def test_energy_is_drawn_where_it_was_measured() -> None:
    panel = studies.panel(targets=1)
    more = (Measurement("energy.per_inference", "J", ((0.0021, 0.0023),)), Measurement("power", "W", ((4.5,),)))
    view = first(replace(panel, results=(replace(panel.results[0], measurements=more),)))
    found = cost.energy(view, looks_of([view]))
    assert [chart.data.rows[0][1] for chart in found] == ["2.2 mJ", "4.5 W"]


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_coordinate_that_is_not_finite_is_refused(value: float) -> None:
    with pytest.raises(ValueError, match="coordinate"):
        number(value)


def test_texts_are_escaped_and_cut_in_the_middle() -> None:
    hostile = '</text><script>alert("1")</script>' + "x" * 400 + "end"
    drawing = Drawing("a <b> & 'c'", "d", 100, 100)
    drawing.text(1, 1, hostile, room=200)
    drawing.rect(0, 0, 1, 1, "box", hostile)
    root = ET.fromstring(str(drawing.markup()))
    assert not list(root.iter("script")) and root[0].text == "a <b> & 'c'"
    text = next(root.iter("text"))
    assert text.text is not None and text.text.startswith("</te") and text.text.endswith("end")
    assert text[0].text == hostile
    assert width_of(shortened("字" * 80, 100)) <= 100
