"""Inputs as they are: each layout and element type is right, or refused in one line. ``make cases`` has all targets."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import needs
from tests.cases.expected import KINDS, REFUSED
from tests.cases.verdicts import is_right, verdict

pytestmark = pytest.mark.filterwarnings("ignore")  # vendors' own, in this process
QUICK = ("cpu", "torch")
"""Targets that take all kinds in ``make test``."""
SLOW = (
    *((name, target) for name in KINDS for target in ("openvino", "atalla")),
    *(
        (name, target)
        for name in ("channels_last", "bfloat16")
        for target in ("xnnpack", "portable", "ncnn", "mnn", "iree")
    ),
    *(("picture", target) for target in ("xnnpack", "ncnn", "mnn")),
)


@pytest.mark.parametrize(
    ("name", "target"),
    [
        *((name, target) for name in KINDS for target in QUICK),
        *(pytest.param(*one, marks=pytest.mark.slow) for one in SLOW),
    ],
)
def test_a_kind_of_input_is_right_or_refused_in_one_line(name: str, target: str, tmp_path: Path) -> None:
    if target.startswith("iree"):
        needs.no_space()
    wanted = REFUSED.get((name, target))
    found = verdict(name, target, tmp_path)
    assert is_right(found, wanted), found
