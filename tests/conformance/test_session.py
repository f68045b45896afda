"""What every backend that runs here promises about an open artifact; seen from outside."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import cross_backend as xb
from cross_backend.artifact import Artifact
from cross_backend.backend import Backend
from cross_backend.errors import ArtifactError, RunError, UsageError
from cross_backend.tensors import to_numpy
from tests.conformance.conftest import Lower, Open, Right
from tests.conformance.models import BOUND, tensors_of

LOAD = """
import sys
import cross_backend as xb
for path in sys.argv[1:]:
    try:
        xb.load(path)
    except xb.CrossBackendError as error:
        print(type(error).__name__)
vendors = {"torch", "torchvision", "onnx", "onnxscript", "onnxruntime", "openvino", "executorch", "iree", "coremltools"}
vendors |= {"ncnn", "pnnx", "MNN", "_tools", "_mnncengine", "ai_edge_litert", "litert_torch", "jax"}
vendors |= {"gguf", "llama_cpp", "onnxruntime_genai"}
print(sorted(vendors & sys.modules.keys()))
"""


def _arrays(tensors: tuple[torch.Tensor, ...]) -> tuple[np.ndarray[Any, Any], ...]:
    return tuple(x.numpy().copy() for x in tensors)


@pytest.mark.parametrize("name", ["mlp", "cnn", "multi"])
def test_computes_what_eager_computes(lowered: Lower, opened: Open, right: Right, name: str) -> None:
    model, session = lowered(name).model, opened(name)
    right(session(*model.inputs), model.expected(model.inputs))
    right(session(*model.others), model.expected(model.others))


def test_takes_scalars_and_unread_inputs(lowered: Lower, opened: Open, right: Right) -> None:
    model = lowered("corners").model
    right(opened("corners")(*model.inputs), model.expected(model.inputs))
    right(opened("corners")(*_arrays(model.others)), model.expected(model.others))


def test_takes_and_gives_the_models_own_structure(lowered: Lower, opened: Open, right: Right) -> None:
    model, session = lowered("multi").model, opened("multi")
    args, kwargs = model.call(*model.others)
    outputs = session(*args, **kwargs)
    right(outputs, model.expected(model.others))
    assert list(outputs) == ["scores", "more", "scaled"] and outputs["more"] is None
    assert outputs["scores"]._fields == ("raw", "label") and isinstance(outputs["scaled"], list)
    with pytest.raises(RunError, match="batch must be a dict of 'x', but a Tensor was given"):
        session(model.inputs[0], **kwargs)


def test_two_threads_may_call_one_session(lowered: Lower, opened: Open, right: Right) -> None:
    """Each gets the outputs of its own inputs, whatever the runtime keeps in one place."""
    model, session = lowered("cnn").model, opened("cnn")

    def call(inputs: tuple[torch.Tensor, ...]) -> None:
        expected = model.expected(inputs)
        for _ in range(40):
            right(session(*inputs), expected)

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(call, (model.inputs, model.others)))


@pytest.mark.parametrize("name", ["mlp", "multi"])
def test_keeps_two_bindings_apart(lowered: Lower, opened: Open, right: Right, name: str) -> None:
    model, session = lowered(name).model, opened(name)
    first, second = session.bind(model.inputs), session.bind(model.others)
    right(first(), model.expected(model.inputs))
    right(second(), model.expected(model.others))
    right(first(), model.expected(model.inputs))


@pytest.mark.parametrize("kind", ["numpy", "torch"])
def test_copies_the_inputs_that_it_binds(lowered: Lower, opened: Open, right: Right, kind: str) -> None:
    model = lowered("mlp").model
    inputs = _arrays(model.inputs) if kind == "numpy" else [x.clone() for x in model.inputs]
    run = opened("mlp").bind(inputs)
    inputs[0][:] = 1e3
    right(run(), model.expected(model.inputs))


def test_repeated_calls_are_stable(lowered: Lower, opened: Open) -> None:
    run = opened("cnn").bind(lowered("cnn").model.inputs)
    first = to_numpy(run()[0]).copy()
    for _ in range(20):
        np.testing.assert_array_equal(to_numpy(run()[0]), first)


@pytest.mark.parametrize("kind", ["numpy", "torch"])
def test_results_outlive_the_next_call(lowered: Lower, opened: Open, right: Right, kind: str) -> None:
    model, session = lowered("mlp").model, opened("mlp")
    inputs, others = (_arrays(x) if kind == "numpy" else x for x in (model.inputs, model.others))
    first = session(*inputs)
    session(*others)
    right(first, model.expected(model.inputs))


def test_answers_in_the_kind_of_its_inputs(lowered: Lower, opened: Open) -> None:
    model, session = lowered("multi").model, opened("multi")
    tensors, arrays = session(*model.inputs), session(*_arrays(model.inputs))
    assert all(isinstance(y, torch.Tensor) for y in tensors_of(tensors))
    assert all(isinstance(y, np.ndarray) for y in tensors_of(arrays))
    assert isinstance(opened("mlp")(*lowered("mlp").model.inputs), torch.Tensor), "one output is given as itself"


def test_gives_what_its_specification_says(lowered: Lower, opened: Open) -> None:
    session = opened("multi")
    outputs = tensors_of(session(*lowered("multi").model.inputs))
    assert len(outputs) == len(session.outputs)
    assert all(spec.accepts(y) for spec, y in zip(session.outputs, outputs, strict=True))


@pytest.mark.parametrize(
    ("change", "given"),
    [
        (lambda x: x[:, :5], "float32[2, 5]"),
        (lambda x: x[0], "float32[6]"),
        (lambda x: x.double(), "float64[2, 6]"),
        (lambda x: x.numpy().astype(np.int64), "int64[2, 6]"),
        (lambda x: x.tolist(), "list"),
    ],
    ids=["shape", "rank", "dtype", "numpy dtype", "list"],
)
def test_names_both_sides_of_a_wrong_input(
    lowered: Lower, opened: Open, change: Callable[[Any], Any], given: str
) -> None:
    wrong = change(lowered("mlp").model.inputs[0])
    for call in (lambda: opened("mlp")(wrong), lambda: opened("mlp").bind([wrong])):
        with pytest.raises(RunError) as caught:
            call()
        assert "float32[2, 6]" in str(caught.value) and given in str(caught.value)
        assert "\n" not in str(caught.value)


def test_names_both_counts_of_inputs(lowered: Lower, opened: Open) -> None:
    x = lowered("mlp").model.inputs[0]
    for wrong in ((), (x, x)):
        with pytest.raises(RunError, match=f"takes 1 input.*float32.*{len(wrong)} were given"):
            opened("mlp").bind(wrong)


def test_takes_inputs_that_are_not_contiguous(lowered: Lower, opened: Open, right: Right) -> None:
    model, session = lowered("cnn").model, opened("cnn")
    x, expected = model.inputs[0], model.expected(model.inputs)
    array = x.numpy()
    for strange in (x.contiguous(memory_format=torch.channels_last), x.mT.contiguous().mT):
        assert not strange.is_contiguous()
        right(session(strange), expected)
    for strange in (np.asfortranarray(array), np.ascontiguousarray(array[:, :, ::-1])[:, :, ::-1]):
        assert not strange.flags.c_contiguous
        right(session(strange), expected)
    frozen = array.copy()
    frozen.flags.writeable = False
    right(session(frozen), expected)


def test_takes_tensors_that_require_gradients(lowered: Lower, opened: Open, right: Right) -> None:
    model = lowered("mlp").model
    output = opened("mlp")(model.inputs[0].clone().requires_grad_())
    assert not output.requires_grad
    right(output, model.expected(model.inputs))


def test_works_only_inside_with(lowered: Lower, opens_here: None, right: Right) -> None:
    model, artifact = lowered("mlp").model, lowered("mlp").artifact
    session = xb.load(artifact)
    for _ in range(2):
        with pytest.raises(RunError, match="closed"):
            session.bind(model.inputs)
        with session as held:
            assert held is session
            right(session(*model.inputs), model.expected(model.inputs))
    with pytest.raises(RunError, match="closed"):
        session(*model.inputs)


def test_load_options_override_the_target(
    lowered: Lower, opens_here: None, backend: Backend, right: Right, tmp_path: Path
) -> None:
    """Of a copy: a manifest in the cache may name another backend that wrote the same payload."""
    model, artifact = lowered("mlp").model, lowered("mlp").artifact
    artifact = artifact.copy_to(tmp_path, "copy", artifact.target, "s.npz")
    with pytest.raises(UsageError, match="no_such_option"):
        xb.load(artifact, no_such_option=1)
    for key in (key for key, option in backend.options.items() if option.at == "load" and not option.choices):
        with xb.load(artifact.manifest_path, **{key: 1}) as session:
            assert session.target == f"{backend.name}?{key}=1"
            right(session(*model.inputs), model.expected(model.inputs))


def _copies(artifact: Artifact, folder: Path) -> list[tuple[Artifact, Path]]:
    """Copy an artifact once for each file of its payload."""
    files = [p for p in artifact.payload_path.rglob("*") if p.is_file()] or [artifact.payload_path]
    copies = [artifact.copy_to(folder / str(i), "copy", artifact.target, "s.npz") for i in range(len(files))]
    return [(c, c.payload_path / f.relative_to(artifact.payload_path)) for c, f in zip(copies, files, strict=True)]


def test_refuses_a_changed_payload_before_a_runtime_sees_it(
    lowered: Lower, opens_here: None, tmp_path: Path, run_python: Callable[..., str]
) -> None:
    damaged = []
    for how in ("flip", "cut", "empty"):
        for copy, file in _copies(lowered("mlp").artifact, tmp_path / how):
            data = bytearray(file.read_bytes())
            data[len(data) // 2] ^= 0x10
            file.write_bytes({"flip": bytes(data), "cut": bytes(data[:-9]), "empty": b""}[how])
            with pytest.raises(ArtifactError, match="is not the payload") as caught:
                xb.load(copy.payload_path)
            assert "\n" not in str(caught.value)
            damaged.append(str(copy.manifest_path))
    answers = run_python(LOAD, *damaged).splitlines()
    assert answers == ["ArtifactError"] * len(damaged) + ["[]"], "nothing of the vendor was imported"


def test_refuses_an_artifact_without_its_payload(lowered: Lower, opens_here: None, tmp_path: Path) -> None:
    copy = lowered("mlp").artifact.copy_to(tmp_path, "copy", lowered("mlp").artifact.target, "s.npz")
    shutil.rmtree(copy.payload_path) if copy.payload_path.is_dir() else copy.payload_path.unlink()
    with pytest.raises(ArtifactError, match="is missing"):
        xb.load(copy.manifest_path)
    with pytest.raises(ArtifactError, match="does not exist"):
        xb.load(copy.payload_path)


def test_takes_any_batch_up_to_the_bound(lowered: Lower, opened: Open, right: Right) -> None:
    model, session = lowered("dynamic").model, opened("dynamic")
    assert [type(n) for n in session.inputs[0].shape] == [str, int]
    for batch in (3, 1, BOUND, 2):
        inputs = (model.others[0][:batch],)
        right(session(*inputs), model.expected(inputs))


def test_beyond_the_bound_is_right_or_an_error_of_ours(lowered: Lower, opened: Open, right: Right) -> None:
    inputs, session = (torch.randn(BOUND + 2, 6),), opened("dynamic")
    try:
        outputs = session(*inputs)
    except RunError:
        return  # anything else that is raised, vendors' own exceptions included, fails this test
    right(outputs, lowered("dynamic").model.expected(inputs))
