"""LiteRT's runtime: what a file holds, how it is handed inputs, what it refuses, and damaged files.

What the converter writes is tested in ``tests/toolchains/test_litert.py``.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import cross_backend as xb
from cross_backend.artifact import Artifact, digest_path
from cross_backend.backends.litert import _file
from cross_backend.backends.litert._file import Operator, Tensor, TfliteGraph, read_graph
from cross_backend.backends.litert._foreign import describe
from cross_backend.backends.litert._placement import read_arithmetic, read_placement
from cross_backend.errors import CrossBackendError, LoadError, RunError, UnavailableError, UnsupportedError
from cross_backend.machine import Machine
from cross_backend.registry import find_backend, resolve
from cross_backend.tensors import TensorSpec
from tests.unit.backends import litert_files as files


def _session(artifact: Artifact, target: str = "litert") -> Any:
    resolved = resolve(target)
    return resolved.backend.load(artifact, resolved.options)


def _x(seed: int = 0) -> np.ndarray[Any, Any]:
    return np.random.default_rng(seed).standard_normal((2, 4)).astype(np.float32)


def test_says_how_each_half_is_brought(monkeypatch: pytest.MonkeyPatch) -> None:
    from cross_backend.backends import _packages

    missing = find_backend("litert").missing(Machine.here())
    assert missing is not None and missing.lower is not None and missing.run is None
    assert missing.lower.remedy == "cross-backend toolchain add litert"
    monkeypatch.setattr(_packages, "version_of", lambda _: None)
    missing = find_backend("litert").missing(Machine.here())
    assert missing is not None and missing.run is not None
    assert missing.run.remedy == "pip install 'cross-backend[litert]'"


def test_lowering_without_the_toolchain_is_unavailable_in_one_line() -> None:
    program = xb.capture(torch.nn.Linear(4, 2).eval(), (torch.ones(1, 4),))
    with pytest.raises(UnavailableError, match="toolchain add litert") as caught:
        xb.lower(program, "litert", name="linear")
    assert "\n" not in str(caught.value)


def test_reads_a_files_graph(tmp_path: Path) -> None:
    graph = read_graph(files.write(tmp_path).payload_path)
    assert [op.kind for op in graph.operators] == ["FULLY_CONNECTED", "ARG_MAX"]
    assert (graph.inputs, graph.outputs) == ((files.X,), (files.Y, files.LABEL))
    assert graph.names == {files.X: "x", files.Y: "y", files.LABEL: "label"}
    assert graph.constant_bytes == files.WEIGHTS.nbytes + files.BIAS.nbytes + 4
    assert [(t.dtype, t.shape) for t in graph.tensors][:2] == [("float32", (2, 4)), ("float32", (3, 4))]


def test_what_xnnpack_does_not_take_is_left(tmp_path: Path) -> None:
    path = files.write(tmp_path).payload_path
    placement = read_placement(path, read_graph(path))
    assert placement.delegates == {"XNNPACK": 1}
    assert [(row.name, row.count) for row in placement.inside] == [("FULLY_CONNECTED", 1)]
    (left,) = placement.left
    assert (left.name, left.count, left.flops) == ("ARG_MAX", 1, 0)
    assert left.why == "XNNPACK does not take it with float32, int32"


def test_a_program_that_xnnpack_takes_nothing_of_is_litert_s_own(tmp_path: Path) -> None:
    def only_argmax(model: Any) -> None:
        (graph,) = model.subgraphs
        graph.operators, graph.inputs, graph.outputs = graph.operators[1:], [files.Y], [files.LABEL]

    path = files.write(tmp_path, only_argmax).payload_path
    placement = read_placement(path, read_graph(path))
    assert (placement.delegates, placement.left, placement.coverage) == ({}, (), 1.0)
    assert [row.name for row in placement.inside] == ["ARG_MAX"]


def test_tells_arithmetic_apart_by_types() -> None:
    f32, weights, quantised = (
        Tensor("float32", (2, 4), 0, is_quantised=False),
        Tensor("int8", (3, 4), 12, is_quantised=True),
        Tensor("int8", (2, 4), 0, is_quantised=True),
    )
    indices = Tensor("int8", (2, 4), 0, is_quantised=False)
    rows = (
        ("QUANTIZE", (0,), (2,)),
        ("CONV_2D", (2, 1), (2,)),
        ("RESHAPE", (2,), (2,)),
        ("DEQUANTIZE", (2,), (0,)),
        ("FULLY_CONNECTED", (0, 1), (0,)),
        ("HARD_SWISH", (0,), (0,)),
        ("ADD", (3, 3), (3,)),
    )
    operators = tuple(Operator(*row) for row in rows)
    found = read_arithmetic(TfliteGraph((f32, weights, quantised, indices), operators, (0,), (0,), {}, ()))
    assert [(row.name, row.count) for row in found.low] == [("CONV_2D", 1), ("FULLY_CONNECTED", 1)]
    assert [(row.name, row.count) for row in found.kept] == [("ADD", 1), ("HARD_SWISH", 1)]
    assert found.conversions == 2


def test_a_precision_that_it_lacks_has_its_reason() -> None:
    with pytest.raises(UnsupportedError, match="litert has no bf16: its converter widens bfloat16 to float32"):
        resolve("litert?precision=bf16")


def test_computes_what_the_network_computes(tmp_path: Path) -> None:
    with _session(files.write(tmp_path), "litert?threads=2") as session:
        run = session.bind([_x()])
        for _ in range(3):  # inputs stay in the interpreter's memory from call to call
            y, label = (np.asarray(one) for one in run())
            np.testing.assert_allclose(y, files.expected(_x())[0], atol=1e-6)
            assert label.dtype == np.int64 and (label == files.expected(_x())[1]).all()
        assert [(one.shape, str(one.dtype)) for one in run()] == [((2, 3), "float32"), ((2,), "int64")]


def test_a_binding_takes_its_inputs_again_where_another_ran(tmp_path: Path) -> None:
    with _session(files.write(tmp_path)) as session:
        first, second = session.bind([_x(1)]), session.bind([_x(2)])
        for run, seed in ((first, 1), (second, 2), (first, 1)):
            np.testing.assert_allclose(np.asarray(run()[0]), files.expected(_x(seed))[0], atol=1e-6)


def _with_int32_input(model: Any) -> None:
    """Give the place of the largest of whole numbers."""
    (graph,) = model.subgraphs
    graph.operators, graph.inputs, graph.outputs = graph.operators[1:], [files.Y], [files.LABEL]
    graph.tensors[files.Y].type = files.schema.TensorType.INT32


@pytest.mark.parametrize("value", [2**31, -(2**31) - 1])
def test_refuses_whole_numbers_that_32_bits_do_not_hold(tmp_path: Path, value: int) -> None:
    artifact = replace(
        files.write(tmp_path, _with_int32_input),
        inputs=(TensorSpec("ids", "int64", (2, 3)),),
        outputs=files.OUTPUTS[1:],
    )
    ids = np.array([[1, 5, 2], [7, 0, 3]])
    with _session(artifact) as session:
        assert session(ids).tolist() == [1, 0]
        ids[0, 0] = value
        with pytest.raises(RunError, match=f"'ids' holds {value}.*32 bits"):
            session(ids)


@pytest.mark.parametrize(
    "changes",
    [
        {"inputs": (TensorSpec("x", "float32", (2, 5)),)},
        {"inputs": (TensorSpec("x", "int32", (2, 4)),)},
        {"inputs": ()},
        {"outputs": files.OUTPUTS[:1]},
        {"outputs": (files.OUTPUTS[1], files.OUTPUTS[0])},
        {"inputs": (TensorSpec("x", "float32", ("batch", 4)),)},
    ],
)
def test_refuses_a_file_that_is_not_what_its_manifest_says(tmp_path: Path, changes: dict[str, Any]) -> None:
    with (
        pytest.raises(LoadError, match="inputs and outputs that its manifest"),
        _session(replace(files.write(tmp_path), **changes)),
    ):
        pass


def test_a_file_of_others_says_what_it_takes(tmp_path: Path) -> None:
    path = files.write(tmp_path).payload_path
    artifact = describe(path)
    assert [str(spec) for spec in artifact.inputs] == ["float32[2, 4]"]
    assert [str(spec) for spec in artifact.outputs] == ["float32[2, 3]", "int32[2]"]
    with _session(artifact) as session:
        np.testing.assert_allclose(session(_x())[0], files.expected(_x())[0], atol=1e-6)


def test_a_type_that_numpy_lacks_is_refused(tmp_path: Path) -> None:
    def change(model: Any) -> None:
        model.subgraphs[0].tensors[files.X].type = files.schema.TensorType.INT4

    with pytest.raises(UnsupportedError, match="'x' is int4"):
        describe(files.write(tmp_path, change).payload_path)


def _set(path: str, value: Any) -> Callable[[Any], None]:
    """Give a function that sets one field of a model: ``subgraphs.0.inputs.0``."""

    def change(model: Any) -> None:
        *way, last = path.split(".")
        for step in way:
            model = model[int(step)] if step.isdecimal() else getattr(model, step)
        if last.isdecimal():
            model[int(last)] = value
        else:
            setattr(model, last, value)

    return change


@pytest.mark.parametrize(
    ("path", "value", "reason"),
    [
        ("subgraphs", [], "has no graph"),
        ("subgraphs", None, "has no graph"),
        ("buffers", None, "has no graph"),
        ("operatorCodes", None, "operator 0 has no kind"),
        ("operatorCodes.0.builtinCode", 9999, "operator 9999 is unknown"),
        ("subgraphs.0.tensors", [], "does not exist"),
        ("subgraphs.0.inputs.0", 99, "tensor 99 does not exist"),
        ("subgraphs.0.outputs.0", -1, "tensor -1 does not exist"),
        ("subgraphs.0.inputs", [0, 0], "two of its inputs"),
        ("subgraphs.0.operators.0.opcodeIndex", 7, "operator 0 has no kind"),
        ("subgraphs.0.operators.0.inputs.1", 1 << 30, "does not exist"),
        ("subgraphs.0.operators.0.outputs.0", -2, "does not exist"),
        ("subgraphs.0.tensors.1.buffer", 77, "lies in buffer 77"),
        ("subgraphs.0.tensors.1.shape", [3, 5], r"float32\[3, 5\] of 48 bytes"),
        ("subgraphs.0.tensors.1.type", 2 + 100, "type 102"),
        ("subgraphs.0.tensors.0.shape", [-2, 4], "no tensor has"),
        ("subgraphs.0.tensors.0.shape", [1 << 30] * 4, "no tensor has"),
        ("subgraphs.0.tensors.0.shape", [1] * 9, "more than 8 dimensions"),
        ("subgraphs.0.inputs.0", files.W, "one of its inputs is a constant"),
        ("subgraphs.0.operators.0.outputs.0", files.B, "writes a constant"),
        ("subgraphs.0.operators.0.inputs.0", files.LABEL, "reads what no operator before it wrote"),
        ("buffers.1.offset", 1 << 40, "ends behind the file"),
    ],
)
def test_a_file_that_contradicts_itself_is_one_line(tmp_path: Path, path: str, value: Any, reason: str) -> None:
    artifact = files.write(tmp_path, _set(path, value))
    with pytest.raises(LoadError, match=reason) as caught, _session(artifact):
        pass
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("scales", "zeros", "axis", "reason"),
    [
        ([0.5], [1], 0, "a zero point that float32 does not hold"),
        ([0.5, 0.5], [0, 0], 0, r"2 scales for \[3, 4\]"),
        ([0.5] * 4, [0] * 4, 7, r"4 scales for \[3, 4\]"),
        ([float("nan")], [0], 0, "no positive number"),
        ([-1.0], [0], 0, "no positive number"),
    ],
)
def test_scales_that_do_not_fit_are_one_line(
    tmp_path: Path, scales: list[float], zeros: list[int], axis: int, reason: str
) -> None:
    """Kernels make tables by them."""
    quantisation = files.schema.QuantizationParametersT()
    quantisation.scale, quantisation.zeroPoint, quantisation.quantizedDimension = scales, zeros, axis
    artifact = files.write(tmp_path, _set(f"subgraphs.0.tensors.{files.W}.quantization", quantisation))
    with pytest.raises(LoadError, match=reason) as caught, _session(artifact):
        pass
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("data", [b"", b"TFL3", b"garbage" * 99, bytes(64), b"\x10\0\0\0TFL3" + b"\xff" * 64])
def test_what_is_no_model_is_one_line(tmp_path: Path, data: bytes) -> None:
    artifact = files.write(tmp_path)
    artifact.payload_path.write_bytes(data)
    with pytest.raises(LoadError) as caught, _session(artifact):
        pass
    assert "\n" not in str(caught.value)


def test_lists_that_share_their_bytes_are_refused_before_they_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    artifact = files.write(tmp_path)
    monkeypatch.setattr(_file, "_ENTRY_BYTES", artifact.size_bytes // 20)
    with pytest.raises(LoadError, match="lists are longer than the file"):
        read_graph(artifact.payload_path)


def test_a_missing_file_is_one_line(tmp_path: Path) -> None:
    artifact = files.write(tmp_path)
    artifact.payload_path.unlink()
    with pytest.raises(CrossBackendError, match="does not exist"), _session(artifact):
        pass


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.parametrize(
    "times", [20, pytest.param(80, marks=pytest.mark.slow), pytest.param(500, marks=pytest.mark.nightly)]
)
def test_no_damage_ends_the_process(tmp_path: Path, times: int) -> None:
    """A byte of the file is changed, and a forked child opens it."""
    artifact = files.write(tmp_path)
    data = artifact.payload_path.read_bytes()
    chance = random.Random(0)
    places = chance.choices(range(len(data)), k=times)
    with _session(artifact):  # the runtime is imported once, not in each child
        pass
    for place in places:
        changed = bytearray(data)
        changed[place] = chance.choice([0, 0xFF, changed[place] ^ 1 << chance.randrange(8)])
        artifact.payload_path.write_bytes(changed)
        child = os.fork()
        if child == 0:
            os._exit(_opens(replace(artifact, sha256=digest_path(artifact.payload_path))))
        _, status = os.waitpid(child, 0)
        assert os.WIFEXITED(status) and os.WEXITSTATUS(status) in {0, 1}, f"byte {place} is {changed[place]}"


def _opens(artifact: Artifact) -> int:
    """Give 0 where a file opens and runs, 1 where it is refused by an error of ours, 2 for anything else."""
    try:
        with _session(artifact) as session:
            session(_x())
    except CrossBackendError:
        return 1
    except BaseException:
        return 2
    return 0
