"""The null backend: it lowers, opens and answers like any other, and its answers never pass for right ones."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import cross_backend as xb
from cross_backend.errors import ArtifactError, LoadError
from cross_backend.registry import resolve
from cross_backend.verify.compare import compare_outputs
from tests.conformance.models import build


def test_gives_zeros_that_fail_verification() -> None:
    model = build("mlp")
    with xb.load(xb.lower(xb.capture(model.module, model.inputs), "null", name="mlp")) as session:
        outputs = [session(*(x.numpy() for x in model.inputs))]
    expected = [y.numpy() for y in model.expected(model.inputs)]
    assert [(y.shape, y.dtype) for y in outputs] == [(y.shape, y.dtype) for y in expected]
    assert not any(y.any() for y in outputs)
    comparison = compare_outputs({"expected": expected}, [outputs])
    assert not comparison.verdict
    assert comparison.sqnr_db == pytest.approx(0)


def test_refuses_a_payload_that_is_not_its_own(tmp_path: Path) -> None:
    model = build("mlp")
    artifact = xb.lower(xb.capture(model.module, model.inputs), "null", name="mlp", output_dir=tmp_path)
    artifact.payload_path.write_text("something else")
    with pytest.raises(ArtifactError, match="sha256"):
        xb.load(artifact)
    with pytest.raises(LoadError), resolve("null").backend.load(artifact, {}):
        pass


def test_is_measured_without_work(tmp_path: Path) -> None:
    model = build("mlp")
    artifact = xb.lower(xb.capture(model.module, model.inputs), "null", name="mlp", output_dir=tmp_path)
    with xb.load(artifact.payload_path) as session:
        run = session.bind([x.numpy() for x in model.inputs])
        assert run() is run(), "a call does nothing, not even allocate"
        np.testing.assert_array_equal(run()[0], np.zeros((2, 4), np.float32))
