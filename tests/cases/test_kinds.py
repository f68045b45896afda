"""Inputs as they are: each layout and element type on each target is right, or refused in one line."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import needs
from tests.cases.expected import KINDS, REFUSED
from tests.cases.verdicts import EVERY, is_right, verdict
from tests.unit.browser.conftest import browser

__all__ = ["browser"]
pytestmark = pytest.mark.filterwarnings("ignore")  # vendors' own, in this process
QUICK = ("cpu", "openvino", "atalla", "torch")
"""Targets that are quick on all networks."""
ALSO_QUICK = {
    *(("channels_last", target) for target in ("xnnpack", "portable", "ncnn", "mnn", "iree")),
    *(("bfloat16", target) for target in ("xnnpack", "portable", "ncnn", "mnn", "iree")),
    *(("picture", target) for target in ("xnnpack", "ncnn", "mnn")),
}


def cases() -> list[object]:
    found: list[object] = []
    for name in KINDS:
        for target in EVERY:
            quick = target in QUICK or (name, target) in ALSO_QUICK
            found.append(pytest.param(name, target, marks=() if quick else pytest.mark.slow))
    return found


@pytest.mark.parametrize(("name", "target"), cases())
def test_a_kind_of_input_is_right_or_refused_in_one_line(
    name: str, target: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    if "vulkan" in target:
        needs.vulkan()
    if target.startswith("iree"):
        needs.no_space()
    if target == "torch.aot_inductor":
        needs.program("g++")
    if target.startswith("browser"):
        request.getfixturevalue("browser")
    wanted = REFUSED.get((name, target))
    found = verdict(name, target, tmp_path)
    assert is_right(found, wanted), found
