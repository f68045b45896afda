"""Placement as it is printed: facts that are known, grouped operators, reasons and lines."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cross_backend.placement import Operators, Placement
from cross_backend.report.placement import LINES, TELLING, facts, left_by_delegate, print_operators
from cross_backend.report.terminal import Terminal

PLACEMENT = Placement(
    {"XnnpackBackend": 2, "Other": 1},
    (Operators("Conv2d", 3),),
    (
        Operators(
            "aten::bmm.out", 2, "invalid dtype", 1_234_567, ("net.py:7 forward: a @ b", "net.py:9 forward: c @ d")
        ),
        Operators("aten::sort.values", 1, None, 0),
    ),
    flop_coverage=0.99961,
    planned_bytes=16_384,
    constant_bytes=0,
    delegate_bytes=2_500_000,
)


def printed(placement: Placement, capsys: pytest.CaptureFixture[str]) -> list[str]:
    print_operators(Terminal(), placement)
    return [" ".join(line.split()) for line in capsys.readouterr().out.splitlines() if line.strip()]


def test_facts_are_counts_coverage_and_memory() -> None:
    assert facts(PLACEMENT) == [
        ("delegates", "XnnpackBackend × 2, Other × 1"),
        ("coverage", "50.0 % of the operators: 3 of 6"),
        ("", "99.9 % of the floating point operations"),
        ("planned memory", "16.4 kB (activations outside delegates)"),
        ("constants", "0 B (outside delegates)"),
        ("delegate data", "2.5 MB (blobs and weights)"),
    ]


def test_what_is_not_known_is_not_told() -> None:
    assert facts(Placement(inside=(Operators("conv", 1),))) == [
        ("delegates", "none"),
        ("coverage", "100 % of the operators: 1 of 1"),
    ]


def test_what_was_left_has_its_reason_its_work_and_its_lines(capsys: pytest.CaptureFixture[str]) -> None:
    lines = printed(PLACEMENT, capsys)
    assert lines[0] == "Not delegated, most expensive first"
    assert lines[1].startswith("3 operators run outside of the delegate, on the runtime's plain loops")
    assert lines[2] == "operator count FLOPs why made by"
    assert lines[3] == "aten::bmm.out 2 1,234,567 invalid dtype net.py:7 forward: a @ b"
    assert lines[4] == "net.py:9 forward: c @ d"
    assert lines[5] == "aten::sort.values 1 0"
    assert lines[6:] == ["Covered", "operator count", "Conv2d 3"]


def test_what_a_delegate_leaves_is_said_to_be_dear() -> None:
    """By its share of the work; where targets are compared, only from a share on that counts."""
    half = replace(PLACEMENT, flop_coverage=0.38)
    assert left_by_delegate(half, TELLING) == (
        "62.0 % of the floating point operations run outside of the delegate, on the runtime's plain "
        "loops, which can take many times as long."
    )
    assert left_by_delegate(PLACEMENT, TELLING) == "" == left_by_delegate(None)
    one = replace(PLACEMENT, left=PLACEMENT.left[1:], flop_coverage=None)
    assert left_by_delegate(one).startswith("1 operator runs outside of the delegate")
    assert left_by_delegate(replace(PLACEMENT, left=())) == ""
    assert left_by_delegate(replace(half, delegates={})) == "", "its own kernels are no others'"


def test_a_manifest_of_an_older_version_knows_no_work(capsys: pytest.CaptureFixture[str]) -> None:
    lines = printed(Placement(left=(Operators("aten::sort.values", 2, "no kernel"),)), capsys)
    assert lines[2:] == ["aten::sort.values 2 – no kernel"]


@pytest.mark.parametrize("count", [LINES, LINES + 1, LINES + 20])
def test_of_many_lines_the_first_are_shown(count: int, capsys: pytest.CaptureFixture[str]) -> None:
    made_by = tuple(f"net.py:{number} forward: x" for number in range(count))
    lines = printed(Placement(left=(Operators("o", count, "why", 0, made_by),)), capsys)
    assert len([line for line in lines if "net.py" in line]) == LINES
    more = count - LINES
    assert [line for line in lines if "…" in line] == ([f"… and {more} more"] if more else [])


def test_nothing_left_and_nothing_inside_print_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert printed(Placement(), capsys) == []
    assert printed(Placement(inside=(Operators("conv", 1),)), capsys)[0] == "Covered"
