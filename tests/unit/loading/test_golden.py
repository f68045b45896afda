"""Files of version 0.1: bundles and exported artifacts that users have still open and compute what they did."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

import cross_backend as xb

DATA = Path(__file__).parents[2] / "data"
X = np.array([[1.0, 2.0, 3.0, 4.0]], np.float32)


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a copy of the files, beside a cache that remembers nothing."""
    monkeypatch.setenv("CROSS_BACKEND_CACHE", str(tmp_path / "cache"))
    return Path(shutil.copytree(DATA, tmp_path / "data"))


def test_a_bundle_opens(kept: Path) -> None:
    with xb.load_best(kept / "bundle_v1") as session:
        assert session.target == "onnxruntime.cpu" and not session.rejected
        np.testing.assert_allclose(np.asarray(session(X)), [[2.7182]], rtol=1e-3)


def test_its_next_one_opens_where_the_first_does_not(kept: Path) -> None:
    (kept / "bundle_v1" / "linear_regression_onnxruntime.onnx").write_bytes(b"")
    with xb.load_best(kept / "bundle_v1") as session:
        assert session.target == "atalla" and len(session.rejected) == 1
        np.testing.assert_allclose(np.asarray(session(X)), [[2.7182]], rtol=1e-3)


@pytest.mark.parametrize("name", ["linear_regression_onnxruntime.onnx", "linear_regression_atalla.atalla"])
def test_an_artifact_opens(name: str, kept: Path) -> None:
    with xb.load(kept / "export_v1" / name) as session:
        np.testing.assert_allclose(np.asarray(session(X)), [[2.7182]], rtol=1e-3)
