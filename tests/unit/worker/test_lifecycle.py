"""Life-cycles: what a vendor has begun to end, read against the version that is installed."""

from __future__ import annotations

import re

import pytest

from cross_backend.backend import Lifecycle
from cross_backend.machine import version_of
from cross_backend.registry import find_backend, lifecycle_here, rows

ENDING = Lifecycle("vendor", deprecated="1.2", removed="1.10", instead="the other backend")


@pytest.mark.parametrize("installed", [None, "0.1", "99.0"])
def test_nothing_is_said_where_nothing_ends(installed: str | None) -> None:
    assert Lifecycle().read(installed) == "supported"


@pytest.mark.parametrize(
    ("installed", "state"),
    [
        ("1.1.9", "supported"),
        ("1.2", "deprecated since vendor 1.2, removed in 1.10 (1.2 is installed here); ways out: the other backend"),
        (
            "1.9.1",
            "deprecated since vendor 1.2, removed in 1.10 (1.9.1 is installed here); ways out: the other backend",
        ),
        ("1.10.0", "removed in vendor 1.10 (1.10.0 is installed here); ways out: the other backend"),
        ("1.11+cpu", "removed in vendor 1.10 (1.11+cpu is installed here); ways out: the other backend"),
        (None, "removed in vendor 1.10; ways out: the other backend"),
    ],
)
def test_a_state_begins_with_its_version(installed: str | None, state: str) -> None:
    """Versions are compared as versions: 1.9 comes before 1.10."""
    assert ENDING.read(installed) == state


def test_a_backend_may_be_deprecated_without_an_end_or_end_without_a_warning() -> None:
    assert Lifecycle("vendor", deprecated="2").read("2.1") == "deprecated since vendor 2 (2.1 is installed here)"
    assert Lifecycle("vendor", removed="2").read("1.9") == "supported"
    assert Lifecycle("vendor", removed="2").read("2.0") == "removed in vendor 2 (2.0 is installed here)"


def test_mps_is_told_to_be_gone_with_its_ways_out() -> None:
    installed = version_of("executorch")
    state = lifecycle_here(find_backend("mps"))
    assert state.startswith(f"removed in executorch 1.5 ({installed} is installed here); ways out: ")
    assert find_backend("mps").lifecycle.read("1.4.1").startswith("deprecated since executorch 1.2, removed in 1.5")
    assert find_backend("mps").lifecycle.read("1.1.0") == "supported"


@pytest.mark.parametrize("name", rows())
def test_every_way_out_is_one(name: str) -> None:
    lifecycle = find_backend(name).lifecycle
    assert bool(lifecycle.instead) == bool(lifecycle.removed or lifecycle.deprecated) == bool(lifecycle.distribution)
    for successor in re.findall(r"\bexecutorch\.\w+", lifecycle.instead):
        assert lifecycle_here(find_backend(successor)) == "supported"
