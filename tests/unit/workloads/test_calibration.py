"""Calibration inputs of the user's own: chosen, checked, and said in the manifest."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from cross_backend.cache import Cache
from cross_backend.errors import ArtifactError, CaptureError, UsageError
from cross_backend.lowering.lower import lower
from cross_backend.program.captured import Captured
from cross_backend.program.writing import write_capture
from cross_backend.registry import resolve
from cross_backend.tensors import TensorSpec
from cross_backend.workloads import find_workload
from cross_backend.workloads.calibration import MOST, read_calibration

SPECS = (TensorSpec("x", "float32", (1, 4)), TensorSpec("ids", "int64", (1, 2)))
EXAMPLES = (np.ones((1, 4), np.float32), np.ones((1, 2), np.int64))


def saved(path: Path, **arrays: np.ndarray) -> Path:
    np.savez(path, **arrays)
    return path


def pair(rows: int, value: float = 1.0) -> dict[str, np.ndarray]:
    numbers = np.arange(rows, dtype=np.float32)[:, None] / max(rows, 1)
    return {
        "input_0": (numbers * np.ones((1, 4)) * value).astype(np.float32),
        "input_1": np.ones((rows, 2), np.int64),
    }


def test_rows_become_inputs_and_of_many_some_are_chosen_the_same_way(tmp_path: Path) -> None:
    few = read_calibration(saved(tmp_path / "few.npz", **pair(5)), None, SPECS, EXAMPLES, "net")
    assert (len(few.inputs), few.of) == (5, 5)
    assert [x.shape for x in few.inputs[0]] == [(1, 4), (1, 2)]
    many = saved(tmp_path / "many.npz", **pair(MOST + 50))
    first, second = (read_calibration(many, None, SPECS, EXAMPLES, "net") for _ in range(2))
    assert (len(first.inputs), first.of) == (MOST, MOST + 50)
    assert all(np.array_equal(a[0], b[0]) for a, b in zip(first.inputs, second.inputs, strict=True))


def test_a_folder_of_many_files(tmp_path: Path) -> None:
    for number in range(MOST + 3):
        saved(tmp_path / f"{number:03}.npz", **pair(1))
    found = read_calibration(tmp_path, None, SPECS, EXAMPLES, "net")
    assert (len(found.inputs), found.of) == (MOST, MOST + 3)


BAD = {
    "nan": ({"input_0": np.full((1, 4), np.nan, np.float32), "input_1": np.ones((1, 2), np.int64)}, "NaN"),
    "shape": ({"input_0": np.ones((1, 5), np.float32), "input_1": np.ones((1, 2), np.int64)}, "calibrates no net"),
    "type": ({"input_0": np.ones((1, 4)), "input_1": np.ones((1, 2), np.int64)}, "calibrates no net"),
    "count": ({"input_0": np.ones((1, 4), np.float32)}, "calibrates no net"),
    "uneven": ({"input_0": np.ones((4, 4), np.float32), "input_1": np.ones((3, 2), np.int64)}, "calibrates no net"),
    "large": (pair(3, 1500.0), "500 times the example input's"),
}


@pytest.mark.parametrize("kind", BAD)
def test_bad_inputs_are_refused_with_their_name(kind: str, tmp_path: Path) -> None:
    arrays, words = BAD[kind]
    path = saved(tmp_path / f"{kind}.npz", **arrays)
    with pytest.raises(CaptureError, match=words) as caught:
        read_calibration(path, None, SPECS, EXAMPLES, "net")
    assert f"{kind}.npz" in str(caught.value)


def test_nothing_is_no_calibration(tmp_path: Path) -> None:
    for path in (saved(tmp_path / "none.npz"), saved(tmp_path / "empty.npz", **pair(0)), tmp_path / "folder"):
        if not path.suffix:
            path.mkdir()
        with pytest.raises(UsageError, match="--calibration takes"):
            read_calibration(path, None, SPECS, EXAMPLES, "net")
    (tmp_path / "torn.npz").write_bytes((tmp_path / "empty.npz").read_bytes()[:40])
    with pytest.raises(ArtifactError, match=r"torn\.npz"):
        read_calibration(tmp_path / "torn.npz", None, SPECS, EXAMPLES, "net")
    with pytest.raises(UsageError, match="--calibration takes"):
        find_workload("linear_regression", calibration=tmp_path / "missing.npz")


def captured(folder: Path, **options: Path) -> Captured:
    folder.mkdir()
    return write_capture(find_workload("linear_regression", **options).build(), folder)


@pytest.mark.slow
def test_it_changes_the_file_and_the_manifest_says_on_what(tmp_path: Path) -> None:
    own = saved(tmp_path / "own.npz", input_0=np.linspace(-50, 50, 12, dtype=np.float32).reshape(3, 4))
    plain, calibrated = captured(tmp_path / "plain"), captured(tmp_path / "own", calibration=own)
    assert plain.digest != calibrated.digest
    cache, target = Cache(tmp_path / "cache"), resolve("atalla?precision=int8")
    first, second = (lower(one, target, cache).artifact for one in (plain, calibrated))
    assert first.sha256 != second.sha256
    assert json.loads(second.manifest_path.read_text())["calibration"] == {
        "inputs": 3, "of": 3, "seed": None, "from": "own.npz",
    }  # fmt: skip
    assert first.calibration is not None and first.calibration["from"] == "the workload"
    assert lower(plain, resolve("atalla"), cache).artifact.calibration is None
