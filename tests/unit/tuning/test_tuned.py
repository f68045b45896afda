"""Tuned: bounds that are missed, the nearest, the unbeaten, and a command line that a shell reads as it was meant."""

from __future__ import annotations

import json
import math
import re
import shlex
from dataclasses import replace
from pathlib import Path

import pytest

from cross_backend.errors import UsageError
from cross_backend.machine import Machine
from cross_backend.measurement import Interval
from cross_backend.records import Outcome
from cross_backend.registry import BACKENDS, find_backend
from cross_backend.tuning.bounds import Bounds, Miss
from cross_backend.tuning.space import computes_fp32, default_targets, expanded, thread_counts
from cross_backend.tuning.tuned import Loss, Tried, Tuned, export_command, nearest, short_target, unbeaten

ROW = Tried("null", "Null", 1, Outcome.OK, latency_ms=Interval(2.0, 1.9, 2.1), size_bytes=100, memory_bytes=1000)
DOCUMENTED = (Path(__file__).parents[3] / "docs" / "json.md").read_text(encoding="utf-8")


def test_threads_are_powers_of_two_and_all() -> None:
    assert [thread_counts(n) for n in (1, 2, 6, 8)] == [(1,), (1, 2), (1, 2, 4, 6), (1, 2, 4, 8)]


def test_the_space_is_read_from_the_backends() -> None:
    choices = find_backend("xnnpack").options["precision"].choices
    found = expanded(["xnnpack", "cpu"], (), (1, 2))
    in_fp32 = [computes_fp32(text) for text in found]
    assert in_fp32[0] and in_fp32 == sorted(in_fp32, reverse=True), "float32 is first: others are judged by it"
    assert {text for text in found if text.startswith("xnnpack")} == {
        f"xnnpack?precision={one}&threads={n}" for one in choices for n in (1, 2)
    }


def test_what_a_target_names_it_keeps() -> None:
    assert expanded(["xnnpack?precision=int8&threads=3"], (), (1, 2)) == ("xnnpack?precision=int8&threads=3",)
    assert expanded(["xnnpack?threads=3"], ("int8",), (1,)) == ("xnnpack?precision=int8&threads=3",)
    assert expanded(["null"], (), (1, 2)) == ("null",), "it knows no threads"
    with pytest.raises(UsageError, match="unknown backend"):
        expanded(["xnpack"], (), (1,))


def test_nothing_that_only_checks_is_tried_by_default() -> None:
    assert default_targets() and not {"null", "portable", "executorch.portable"} & set(default_targets())


def test_a_miss_says_by_how_much() -> None:
    assert str(Miss("--max-size", 12_300_000, 10_000_000)) == "12.3 MB (--max-size 10.0 MB)"
    assert str(Miss("--max-ms", 7.5, 5.0)) == "7.50 ms (--max-ms 5.00 ms)"
    assert str(Miss("--max-drop", 0.012, 0.005)) == "1.2 % (--max-drop 0.5 %)"
    unknown = Miss("--max-memory", None, 1e6, "the C++ runner does not read it")
    assert str(unknown) == "unknown, because the C++ runner does not read it (--max-memory 1.0 MB)"
    assert (unknown.excess, Miss("--max-drop", 0.1, 0.0).excess) == (math.inf, math.inf)


def test_the_nearest_misses_by_least() -> None:
    def missing(title: str, *misses: Miss, outcome: Outcome = Outcome.OK) -> Tried:
        return replace(ROW, title=title, misses=misses, outcome=outcome)

    far, near = Miss("--max-size", 40, 10), Miss("--max-ms", 6, 5)
    rows = [missing("far", far), missing("near", near), missing("both", far, near)]
    found = nearest([*rows, missing("gone", near, outcome=Outcome.MISMATCH)])
    assert found is not None and found.title == "near"
    lost = [missing(f"{drop}", Miss("--max-drop", drop, 0.0)) for drop in (0.2, 0.1)]
    nothing_allowed = nearest(lost)
    assert nothing_allowed is not None and nothing_allowed.title == "0.1", "of infinite excesses the smallest counts"
    assert nearest([ROW]) is None and nearest([]) is None


def test_the_unbeaten_are_good_in_something() -> None:
    rows = [
        replace(ROW, title="fast", drop=0.01, latency_ms=Interval(1.0, 1.0, 1.0)),
        replace(ROW, title="exact", drop=0.0),
        replace(ROW, title="worse", drop=0.0, size_bytes=200),
        replace(ROW, title="small", drop=0.02, size_bytes=50),
        replace(ROW, title="lean", drop=0.02, memory_bytes=500),
        replace(ROW, title="as lean", drop=0.02, memory_bytes=990),
        replace(ROW, title="out", drop=0.0, size_bytes=1, misses=(Miss("--max-ms", 6, 5),)),
    ]

    def is_slower(first: int, second: int) -> bool:
        return [rows[one].title == "fast" for one in (first, second)] == [False, True]

    assert [rows[index].title for index in sorted(unbeaten(rows, is_slower))] == ["fast", "exact", "small", "lean"]


def test_equals_do_not_remove_each_other() -> None:
    assert unbeaten([ROW, replace(ROW, title="twin")], lambda *_: False) == {0, 1}


def test_the_command_is_one_that_a_shell_reads() -> None:
    assert export_command("digits_cnn", "executorch.xnnpack?precision=int8&threads=2") == (
        "cross-backend export digits_cnn --backends 'xnnpack?precision=int8&threads=2'"
    )
    hostile = "models/$(reboot); .py:f"
    given = export_command(hostile, "null", batch=8, weights="w 1.pt", inputs=[Path("a b")])
    options = ["--weights", "w 1.pt", "--inputs", "a b", "--batch", "8", "--backends", "null"]
    assert shlex.split(given) == ["cross-backend", "export", hostile, *options]


def test_short_targets_are_read_back() -> None:
    for name in BACKENDS:
        assert find_backend(short_target(name)).name == name


def test_losses_are_never_gains() -> None:
    metric = Loss("top-1 accuracy", "", 0.9)
    assert metric.drop(0.95) == 0 and metric.drop(0.85) == pytest.approx(0.05)
    assert Loss("relative error", "", 0.0, is_error=True).drop(0.01) == 0.01
    perplexity = Loss("perplexity", "", 4.0)
    assert perplexity.drop(4.04) == pytest.approx(0.01) and perplexity.drop(3.9) == 0.0
    assert perplexity.smaller_is_better and not metric.smaller_is_better


def test_every_key_is_documented() -> None:
    loss = Loss("top-1 accuracy", "held-out", 0.9)
    row = replace(ROW, misses=(Miss("--max-ms", 6, 5),), ratio=Interval(1.0, 1.0, math.inf))
    found = Tuned("net", "local", Machine.here(), Bounds(), loss, (row,), None, row, None, 1, 5, 1000).to_json()
    text = json.dumps(found, allow_nan=False)
    keys = set(re.findall(r'"(\w+)":', text)) - set(re.findall(r'"(\w+)":', json.dumps(Machine.here().to_json())))
    section = DOCUMENTED.partition("`tune")[2]
    assert {key for key in keys if f'"{key}"' not in section and f"`{key}`" not in section} == set()
