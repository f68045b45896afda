"""Small inputs that were judged wrongly: networks, their wrong twins, files of older opsets. ``make cases`` has all."""

from __future__ import annotations

from pathlib import Path

import pytest

import cross_backend as xb
from cross_backend.cache import Cache
from cross_backend.lowering.lower import lower
from cross_backend.program.writing import write_capture
from cross_backend.registry import resolve
from cross_backend.workloads import find_workload
from tests.cases.expected import FILES, NETWORKS, OTHERWISE, SAME, TWINS
from tests.cases.verdicts import judged, twin_verdict, verdict

pytestmark = pytest.mark.filterwarnings("ignore")  # vendors' own, in this process
ONNX = Path(__file__).parent / "onnx"


def targets(quick: str, *slow: str) -> list[object]:
    """Return the targets of a test; ``make test`` runs the first."""
    return [quick, *(pytest.param(name, marks=pytest.mark.slow) for name in slow)]


@pytest.mark.parametrize("target", targets("cpu", "atalla", "xnnpack"))
@pytest.mark.parametrize("name", NETWORKS)
def test_a_network_is_right_or_says_why_not(name: str, target: str, tmp_path: Path) -> None:
    found = verdict(name, target, tmp_path)
    wanted = OTHERWISE.get((name, target))
    assert found == "OK" if wanted is None else wanted in found, found


@pytest.mark.slow
@pytest.mark.parametrize("target", ["cpu", "xnnpack"])
@pytest.mark.parametrize("name", TWINS)
def test_a_wrong_twin_does_not_pass(name: str, target: str, tmp_path: Path) -> None:
    wanted = {"OK"} if (name, target) in SAME else {"MISMATCH", ""}
    assert twin_verdict(name, target, tmp_path) in wanted


@pytest.mark.parametrize("target", targets("cpu", "openvino", "iree"))
@pytest.mark.parametrize("name", FILES)
def test_a_file_of_an_older_opset_or_of_a_quantiser(name: str, target: str, tmp_path: Path) -> None:
    (tmp_path / "captured").mkdir()
    captured = write_capture(find_workload(str(ONNX / f"{name}.onnx")).build(), tmp_path / "captured")
    try:
        comparison = judged(lower(captured, resolve(target), Cache(tmp_path / "cache")).artifact)
        found = f"{comparison.outcome}: {comparison.why}" if comparison.why else str(comparison.outcome)
    except xb.CrossBackendError as error:
        found = str(error)
    wanted = FILES[name].get(target)
    assert found == "OK" if wanted is None else wanted in found, found
