"""Verdicts: what to ship, on which machine and why; and what a comparison does not prove is never advised."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from cross_backend.measurement import Interval, Measurement
from cross_backend.placement import Operators, Placement
from cross_backend.records import INTERRUPTED, TOO_FEW, Execution, Outcome, Panel, Result
from cross_backend.report import verdicts
from tests.unit.report.conftest import CLOSE, ranked
from tests.unit.report.studies import MACHINE

HERE = "on this machine (AMD EPYC 7R13)"


def panel(*results: Result, found_from: float | None = 0.083, platform: str | None = None) -> Panel:
    settings = {"threads": 1, "platform": platform}
    return Panel("net", results, 0.03, settings, MACHINE, found_from=found_from)


def of(title: str, size_bytes: int | None, computed: float | None = 1.0, peak: float | None = None) -> Result:
    """Give a target that shares the first rank; ``computed`` is its share of the FLOPs, ``peak`` its memory."""
    held = Placement({}, (Operators("conv", 9),), (Operators("sort", 7),), flop_coverage=computed)
    memory = (Measurement("memory.peak_rss", "B", ((peak,),)),) if peak else ()
    return replace(ranked(title, 1, 0.5), size_bytes=size_bytes, placement=held, measurements=memory)


def int8(title: str, rank: int, median_ms: float, **task: float) -> Result:
    """Give a target of lower precision, right within what it does: 36 dB."""
    comparison = replace(CLOSE, sqnr_db=36.2, max_rel=0.04)
    return replace(ranked(title, rank, median_ms, comparison), target="x?precision=int8", task=task)


def test_the_fastest_that_is_right_is_shipped() -> None:
    wrong = Result("net", "w", "Wrong", Outcome.MISMATCH, "off by 7")
    found = panel(wrong, ranked("Slow", 2, 5.0), ranked("Fast", 1, 0.5))
    assert verdicts.ship(found) == f"Ship Fast: the fastest correct backend {HERE}, 500 µs per call."
    assert verdicts.lead(found) == "Fast is 10.0 [9.8, 10.2] times as fast as Slow."


def test_alone_it_is_shipped_because_it_alone_is_right() -> None:
    found = panel(ranked("Fast", 1, 0.5), Result("net", "w", "Wrong", Outcome.MISMATCH, "off by 7"))
    assert verdicts.ship(found) == f"Ship Fast: the only backend verified and measured {HERE}, 500 µs per call."
    assert verdicts.lead(found) == ""


@pytest.mark.parametrize("results", [(), (Result("net", "w", "Wrong", Outcome.MISMATCH, "off by 7"),)])
def test_what_is_not_right_is_never_shipped(results: tuple[Result, ...]) -> None:
    assert verdicts.ship(panel(*results)) == f"Ship none of these: no target was both verified and measured {HERE}."


EQUAL = f"A, B and C share rank 1 {HERE}, 500 µs per call"


@pytest.mark.parametrize(
    ("tied", "text"),
    [
        (
            (of("A", 10_000_000), of("B", 2_500_000), of("C", 10_100_000)),
            f"Ship B: the smallest file (2.5 MB, the next 10.0 MB). {EQUAL}.",
        ),
        (
            (of("A", 1_000_000, 0.9), of("B", 10_100_000), of("C", 10_100_000, 0.7)),
            f"Ship B: the largest share of the work (100 %, the next 90.0 %). {EQUAL}.",
        ),
        (
            (of("A", 2_500_000, 0.9), of("B", 2_500_000), of("C", 10_000_000)),
            (
                "Ship B: the largest share of the work (100 %, the next 90.0 %) and the smallest file "
                f"(2.5 MB, the next 10.0 MB). {EQUAL}."
            ),
        ),
        (
            (of("A", 2_500_000, 1.0, 3e8), of("B", 2_500_000, 0.998, 2e8), of("C", 9_000_000)),
            (
                "Ship B: the smallest file (2.5 MB, the next 9.0 MB) and the least memory (200.0 MB, the next "
                f"300.0 MB). {EQUAL}."
            ),
        ),
        (
            (of("A", 2_500_000), of("B", 2_500_000), of("C", 2_510_000)),
            f"Ship A, B or C. {EQUAL}; nothing else decides.",
        ),
        (
            (of("A", 2_500_000), of("B", 2_500_000), of("C", 9_000_000)),
            f"Ship A or B: the smallest file (2.5 MB, the next 9.0 MB). {EQUAL}; nothing else decides.",
        ),
        ((of("A", None, None), of("B", 1, 0.5), of("C", 2)), f"Ship A, B or C. {EQUAL}; nothing else decides."),
    ],
    ids=["size", "FLOPs before size", "FLOPs and size", "memory", "nothing", "two are left", "unknown"],
)
def test_between_equals_the_computed_share_decides_then_size_then_memory(tied: Sequence[Result], text: str) -> None:
    """XNNPACK once lost for 18 copies of no work: seven operators outside of each delegate here decide nothing."""
    found = panel(*tied, ranked("Slow", 4, 5.0))
    assert verdicts.ship(found) == text
    assert verdicts.lead(found).endswith(" times as fast as Slow.")
    assert verdicts.lead(panel(*tied)) == "No difference was found."


def test_the_share_of_the_time_goes_before_the_share_of_the_flops() -> None:
    at_home = of("A", 1_000, 0.2)
    elsewhere = replace(of("B", 1_000), execution=Execution("GPU", 1.0, 0.93))
    assert verdicts.ship(panel(replace(at_home, execution=Execution("GPU", 0.1, 0.99)), elsewhere)).startswith(
        "Ship A: the largest share of the work (99.0 %, the next 93.0 %)."
    )


def test_equals_of_a_rough_measurement_are_no_equals() -> None:
    found = panel(of("A", 10_000_000), of("B", 2_500_000), found_from=51.0)
    assert verdicts.ship(found) == (
        f"Ship none yet: A and B share the first rank {HERE}, and only a difference of 52 times or more is detected. "
        "Measure again on a quieter machine, or with more launches."
    )
    assert "and no difference is detected" in verdicts.ship(replace(found, found_from=None))
    assert verdicts.ship(replace(found, found_from=0.3)).startswith("Ship B: the smallest file")
    assert verdicts.ship(panel(of("A", 1), ranked("B", 2, 5.0), found_from=51.0)).startswith("Ship A: the fastest")


@pytest.mark.parametrize(
    ("rows", "text"),
    [
        (
            (Result("net", "w", "Waits", Outcome.NOT_MEASURED, INTERRUPTED), ranked("Fast", 1, 0.5)),
            f"Ship none yet: the comparison {HERE} was interrupted before 1 of 2 targets could be compared.",
        ),
        (
            (replace(ranked("A", 1, 0.5), rank=None, unranked=INTERRUPTED), ranked("B", 1, 0.5), ranked("C", 2, 5.0)),
            f"Ship none yet: the comparison {HERE} was interrupted before 1 of 3 targets could be compared.",
        ),
        (
            (replace(ranked("A", 1, 0.5), rank=None, unranked=TOO_FEW), Result("net", "u", "U", Outcome.UNAVAILABLE)),
            f"Ship none yet: too few calls of 1 of 1 targets were measured {HERE}. Measure at least 6 of each.",
        ),
    ],
)
def test_a_comparison_that_did_not_reach_every_target_advises_none(rows: tuple[Result, ...], text: str) -> None:
    assert verdicts.ship(panel(*rows)) == text


def test_a_machine_of_another_platform_proves_nothing_about_speed_there() -> None:
    """On a server, Vulkan does not run and XNNPACK leads; a phone may order them the other way."""
    vulkan = Result("net", "executorch.vulkan", "Vulkan (GPU)", Outcome.UNAVAILABLE, "no runtime", size_bytes=9)
    rows = (vulkan, replace(ranked("XNNPACK", 1, 0.5), target="executorch.xnnpack"), ranked("Portable", 2, 5.0))
    assert verdicts.ship(panel(*rows, platform="android")) == (
        "Ship none yet for Android: no such device was measured, only this machine (AMD EPYC 7R13). Vulkan (GPU), the "
        "first choice for Android, was not measured. Lowered and verified here: XNNPACK and Portable. Lowered, not "
        "run: Vulkan (GPU)."
    )
    assert verdicts.ship(panel(rows[1], platform="web")) == (
        "Ship none yet for Browsers: no such device was measured, only this machine (AMD EPYC 7R13). Lowered and "
        "verified here: XNNPACK."
    )
    for own in ("linux", "desktop", None, "of a newer version"):
        assert verdicts.ship(panel(*rows, platform=own)).startswith("Ship XNNPACK: the fastest correct backend"), own


FLOAT = ranked("XNNPACK", 2, 1.0)


def test_lower_precision_is_offered_with_its_error_where_no_task_tells_its_cost() -> None:
    found = panel(int8("XNNPACK int8", 1, 0.5), replace(FLOAT, task={}))
    named = "XNNPACK int8 (SQNR 36 dB, float32 117 dB)"
    assert verdicts.ship(found) == (
        f"Ship XNNPACK: the fastest correct backend of float32 {HERE}, 1.000 ms per call. {named} takes 500 µs per "
        "call. Its outputs are verified to int8 precision: measure the accuracy of your task before you ship it."
    )
    assert verdicts.lead(found) == f"{named} is 2.00 [1.96, 2.04] times as fast as XNNPACK."
    alone = verdicts.ship(panel(int8("XNNPACK int8", 1, 0.5)))
    assert alone.startswith("Ship none yet: no float32 target was measured") and "(SQNR 36 dB) takes" in alone


def test_lower_precision_is_advised_with_its_task_metric() -> None:
    exact = replace(FLOAT, task={"accuracy": 0.972})
    named = "XNNPACK int8 (accuracy 96.8 %, float32 97.2 %)"
    assert verdicts.ship(panel(int8("XNNPACK int8", 1, 0.5, accuracy=0.968), exact)) == (
        f"Ship {named}: the fastest correct backend {HERE}, 500 µs per call."
    )
    worse = verdicts.ship(panel(int8("XNNPACK int8", 1, 0.5, accuracy=0.9), exact))
    assert worse.startswith("Ship XNNPACK: the fastest") and "int8 (accuracy 90.0 %, float32 97.2 %) takes" in worse


def test_a_perplexity_may_be_a_hundredth_higher() -> None:
    exact = replace(FLOAT, task={"perplexity": 4.447})
    ship = verdicts.ship(panel(int8("XNNPACK int8", 1, 0.5, perplexity=4.474), exact))
    assert ship.startswith("Ship XNNPACK int8 (perplexity 4.474, float32 4.447): the fastest")
    worse = verdicts.ship(panel(int8("XNNPACK int8", 1, 0.5, perplexity=4.6), exact))
    assert worse.startswith("Ship XNNPACK: the fastest") and "(perplexity 4.6, float32 4.447) takes" in worse


def test_between_equals_lower_precision_wins_by_no_smaller_file() -> None:
    rows = (replace(int8("XNNPACK int8", 1, 0.5), size_bytes=1), of("A", 10), of("B", 100))
    assert verdicts.ship(panel(*rows)) == (
        f"Ship A: the smallest file (10 B, the next 100 B). A and B share rank 1 {HERE}, 500 µs per call. XNNPACK int8 "
        "(SQNR 36 dB, float32 117 dB) takes 500 µs per call. Its outputs are verified to int8 precision: measure "
        "the accuracy of your task before you ship it."
    )


def test_our_own_accelerator_is_advised_with_the_fastest_of_the_others() -> None:
    ours = replace(ranked("Atalla", 1, 0.5), target="atalla")
    others = (replace(ours, target="executorch.atalla", title="Delegate", rank=2), ranked("OpenVINO", 3, 0.6))
    assert verdicts.ship(panel(ours, *others)) == (
        f"Ship Atalla: the fastest correct backend {HERE}, 500 µs per call. The fastest of the others: OpenVINO, "
        "600 µs per call."
    )
    assert verdicts.ship(panel(ours, others[0])).endswith("500 µs per call.")
    tied = panel(ours, of("A", 10), of("B", 10))
    assert verdicts.ship(tied).startswith("Ship A or B. Atalla, A and B share rank 1"), "people can ship these"


def test_the_lead_has_its_size() -> None:
    next_one = replace(ranked("OpenVINO", 2, 0.6), ratio=Interval(1.152, 1.121, 1.181))
    found = panel(ranked("XNNPACK", 1, 0.5), next_one)
    assert verdicts.lead(found) == "XNNPACK is faster than OpenVINO by 15 % [12, 18]."
    unpaired = panel(ranked("XNNPACK", 1, 0.5), replace(next_one, ratio=None))
    assert verdicts.lead(unpaired) == "OpenVINO takes longer."


def test_the_resolution_is_that_of_the_worst_panel() -> None:
    pair = (ranked("Fast", 1, 0.5), ranked("Slow", 2, 5.0))
    good, rough, unknown = (panel(*pair, found_from=found) for found in (0.083, 0.2, None))
    alone = panel(pair[0])
    assert verdicts.resolution([good]) == ("Resolution: a difference of 8.3 % or more is detected with 95 % power.")
    assert verdicts.resolution([good, alone, rough]) == (
        "Resolution: a difference of 20 % or more is detected with 95 % power in every panel (from 8.3 % on in the "
        "best)."
    )
    assert verdicts.resolution([good, unknown]) == (
        "Resolution: a difference of 8.3 % or more is detected with 95 % power. Unknown in 1 of 2 panels: too little "
        "was measured there."
    )
    assert verdicts.resolution([unknown, alone]) == "Resolution: unknown, because too little was measured."
    assert verdicts.resolution([]) == verdicts.resolution([alone]) == ""


def test_a_note_says_where_medians_and_ratios_disagree() -> None:
    fast, slow = ranked("Fast", 1, 0.5), ranked("Slow", 2, 5.0)
    assert verdicts.disturbed(panel(fast, slow)) == verdicts.disturbed(panel(fast)) == verdicts.disturbed(panel()) == ""
    assert verdicts.disturbed(panel(fast, replace(slow, ratio=None))) == ""
    calm = replace(slow, ratio=Interval(1.03, 0.88, 1.21))
    assert verdicts.disturbed(panel(fast, calm)).startswith("Other work disturbed many calls.")
