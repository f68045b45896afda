"""Capture: what is stored agrees with itself, digests follow content, and models that cannot be captured say why."""

from __future__ import annotations

import contextlib
import importlib.util
import itertools
import json
import math
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import cross_backend as xb
from cross_backend.errors import ArtifactError, CaptureError, CrossBackendError
from cross_backend.program.capture import Captured, OnnxProgram, digest_program, write_capture
from cross_backend.program.capture import write_program as write
from cross_backend.program.flops import count_flops
from cross_backend.program.pt2 import load_pt2, save_pt2
from cross_backend.program.reference import run_eagerly
from cross_backend.tensors import check_inputs, from_numpy, load_tensors, to_numpy
from cross_backend.workloads import Task, Workload

EIGHT = torch.float8_e5m2
"""A type that neither NumPy nor we have."""


class _Call(nn.Module):
    """Any function as a module with weights."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function, self.linear = function, nn.Linear(4, 4)
        self.register_buffer("count", torch.zeros(()))

    def forward(self, *inputs: Any) -> Any:
        return self.function(self, *inputs)


def net(function: Callable[..., Any] = lambda m, x: m.linear(x), seed: int = 0) -> nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return _Call(function).eval()


class _Unknown:
    """A class that torch was not told of."""

    def __init__(self, x: torch.Tensor) -> None:
        self.x = x


class _Sized(nn.Module):
    def forward(self, x: torch.Tensor) -> dict[str, Any]:
        return {"y": x + 1, "n": x.shape[0]}


USER_NET = """import torch


class Wrong(torch.nn.Module):
    def forward(self, x):
        weights = torch.ones(3, 3)
        return x @ weights
"""
X = torch.linspace(-1, 1, 8).reshape(2, 4)


def store(module: nn.Module, inputs: tuple[Any, ...], folder: Path, **more: Any) -> Captured:
    folder.mkdir(parents=True, exist_ok=True)
    return write_capture(Workload("net", module, inputs, **more), folder)


def assert_consistent(captured: Captured) -> None:
    """The stored program gives the stored outputs for the stored inputs, and all fit the stored specifications."""
    sample = load_tensors(captured.sample_path)
    check_inputs(captured.inputs, sample["input"])
    program = captured.program()
    leaves = [from_numpy(x) for x in sample["input"]]
    args, _ = torch.utils._pytree.tree_unflatten(leaves, program.call_spec.in_spec)
    outputs = run_eagerly(program.module(), args)
    assert len(outputs) == len(captured.outputs) == len(sample["expected"])
    for spec, got, want in zip(captured.outputs, outputs, sample["expected"], strict=True):
        assert spec.accepts(got)
        given = to_numpy(got)
        assert given.dtype == want.dtype
        np.testing.assert_allclose(given.astype(np.float64), want.astype(np.float64), rtol=1e-5)


CASES: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "one": (lambda m, x: m.linear(x), (X,)),
    "several": (lambda m, x, y: (m.linear(x), x + y), (X, X + 1)),
    "nested": (lambda m, d, t: {"out": m.linear(d["a"]) + t[0], "in": d["a"]}, ({"a": X}, (X + 1,))),
    "integers": (lambda m, i: (m.linear.weight[i], i + 1), (torch.tensor([1, 3]),)),
    "booleans": (lambda m, x: m.linear(x) > 0, (X,)),
    "scalar": (lambda m, x, s: m.linear(x) * s, (X, torch.tensor(2.0))),
    "nothing": (lambda m, x: m.linear(x)[:0], (X,)),
    "not contiguous": (lambda m, x: m.linear(x), (torch.linspace(-1, 1, 8).reshape(4, 2).T,)),
    "half": (lambda m, x: x * 2, (X.half(),)),
    "bfloat16": (lambda m, x: (m.linear(x.float()).bfloat16(), x * 3), (X.bfloat16(),)),
    "bytes": (lambda m, x: m.linear(x.float() / 255), (torch.arange(4, 12, dtype=torch.uint8).reshape(2, 4) * 20,)),
    "channels last": (
        lambda m, x: m.linear(x.mean((1, 2))),
        (torch.linspace(-1, 1, 72).reshape(2, 3, 3, 4).to(memory_format=torch.channels_last),),
    ),
    "empty": (lambda m, x, past: m.linear(torch.cat([past, x])), (X, X[:0])),
    "in place": (lambda m, x: m.linear(x.add_(1)), (X.clone(),)),
}

MAY_BE_REFUSED = {"in place"}
"""What need not be supported, as long as it is said when the model is captured."""


@pytest.mark.parametrize("case", CASES)
def test_what_is_stored_agrees_with_itself_or_is_refused(case: str, tmp_path: Path) -> None:
    """A wrong sample would make every backend look wrong."""
    function, inputs = CASES[case]
    before = [x.clone() for x in torch.utils._pytree.tree_leaves(inputs)]
    with contextlib.suppress(*([CaptureError] if case in MAY_BE_REFUSED else [])):
        captured = store(net(function), inputs, tmp_path)
        assert_consistent(captured)
        assert Captured.read(tmp_path) == captured
    after = torch.utils._pytree.tree_leaves(inputs)
    assert all(torch.equal(a, b) for a, b in zip(before, after, strict=True)), "the caller's inputs were changed"


@pytest.mark.parametrize("case", ["one", "nested", "in place"])
def test_a_program_that_the_caller_captured_agrees_with_itself(case: str, tmp_path: Path) -> None:
    function, inputs = CASES[case]
    with contextlib.suppress(*([CaptureError] if case in MAY_BE_REFUSED else [])):
        assert_consistent(write(xb.capture(net(function), inputs), "net", tmp_path))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_programs_of_16_bits_keep_their_probes(dtype: torch.dtype, tmp_path: Path) -> None:
    """Each output is rounded to 11 or 8 bits: that alone is no reason to drop a probe."""
    module = nn.Sequential(nn.Linear(4, 4), nn.GELU()).to(dtype)
    captured = write_capture(Workload("narrow", module, (X.to(dtype),)), tmp_path)
    assert len(captured.proof["probes"]) >= 4, captured.proof
    (rounding,) = load_tensors(captured.sample_path)["rounding"]
    assert torch.finfo(dtype).eps / 8 < float(rounding) < 8 * torch.finfo(dtype).eps


def test_specifications_name_types_shapes_and_free_extents(tmp_path: Path) -> None:
    batch = torch.export.Dim("batch", min=1, max=8)
    program = xb.capture(nn.Linear(4, 4), (X,), ({0: batch},))
    captured = write(program, "net", tmp_path)
    (given,), (made,) = captured.inputs, captured.outputs
    assert (given.dtype, given.shape[1:], made.shape[1:]) == ("float32", (4,), (4,))
    assert isinstance(given.shape[0], str) and given.shape[0] == made.shape[0]


def test_digests_follow_content(tmp_path: Path) -> None:
    def digest(name: str, module: nn.Module, inputs: tuple[Any, ...] = (X,)) -> str:
        return store(module, inputs, tmp_path / name).digest

    same = digest("a", net())
    assert same == digest("b", net())
    others = {
        "weights": digest("c", net(seed=1)),
        "graph": digest("d", net(lambda m, x: m.linear(x) + 1)),
        "constant": digest("e", net(lambda m, x: m.linear(x) + 2)),
        "sample": digest("f", net(), (X * 2,)),
        "shape": digest("g", net(), (X[:1],)),
    }
    assert len({same, *others.values()}) == 1 + len(others)


def test_calibration_inputs_are_part_of_the_identity(tmp_path: Path) -> None:
    """What a quantiser observed shapes an int8 payload, so another calibration must not be served from the cache."""
    digests = [
        store(net(), (X,), tmp_path / str(scale), calibration=((X * scale,), (X + scale,))).digest for scale in (1, 2)
    ]
    assert digests[0] != digests[1]
    read = Captured.read(tmp_path / "1").calibration()
    assert [len(inputs) for inputs in read] == [1, 1]
    np.testing.assert_array_equal(read[1][0], (X + 1).numpy())


def test_without_calibration_inputs_the_sample_serves(tmp_path: Path) -> None:
    (inputs,) = store(net(), (X,), tmp_path).calibration()
    np.testing.assert_array_equal(inputs[0], X.numpy())


def test_a_programs_digest_survives_its_file(tmp_path: Path) -> None:
    program = xb.capture(net(), (X,))
    torch.export.save(program, tmp_path / "a.pt2")
    assert digest_program(load_pt2(tmp_path / "a.pt2")) == digest_program(program)


def test_capturing_uses_evaluation_mode() -> None:
    module = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.9)).train()
    first, second = (run_eagerly(xb.capture(module, (X,)).module(), (X,))[0] for _ in range(2))
    assert torch.equal(first, second)
    assert first.count_nonzero() == first.numel()


def test_a_bare_tensor_is_not_taken_apart() -> None:
    """``xb.capture(model, x)`` must not capture the rows of x as if each were an input."""
    row = X[:1]
    try:
        program = xb.capture(net(), row)  # type: ignore[arg-type]
    except CrossBackendError:
        return
    assert run_eagerly(program.module(), (row,))[0].shape == (1, 4)


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda m, x: x.item(), "cannot capture"),
        (lambda m, x: m.linear(x) if x.sum() > 0 else x, "cannot capture"),
        (lambda m, x: x.no_such_method(), "cannot capture"),
        (lambda m, x: m.linear(x) + torch.rand(2, 4), "pure function"),
        (lambda m, x: (None, 3), "gives no tensor"),
        (lambda m, x: (m.linear(x), math.inf), r"output\[1\] cannot be kept: inf"),
        (lambda m, x: {"a": m.linear(x), "b": x.to(EIGHT)}, r"output\['b'\] is float8_e5m2, which NumPy lacks"),
        (lambda m, x: _Unknown(x), "a _Unknown, which torch does not know: leave it out"),
    ],
    ids=["item", "data dependent", "error", "random", "nothing", "infinity", "float8", "unknown class"],
)
def test_what_cannot_be_captured_says_why(function: Callable[..., Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(CaptureError, match=message) as caught:
        store(net(function), (X,), tmp_path)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ((X.to(EIGHT),), "input inputs_0 is float8_e5m2, which NumPy lacks; give it a float32 tensor and"),
        (({"a": X.to(EIGHT)},), r"input inputs_0\['a'\] is float8_e5m2"),
        ((_Unknown(X),), "a _Unknown, which torch does not know: leave it out"),
    ],
    ids=["float8", "inside", "unknown class"],
)
def test_what_cannot_be_an_input_is_said_when_the_module_is_captured(inputs: tuple[Any, ...], message: str) -> None:
    with pytest.raises(CaptureError, match=message) as caught:
        xb.capture(net(lambda m, x: x), inputs)
    assert "\n" not in str(caught.value)


def test_a_number_that_the_sizes_decide_is_said_when_the_module_is_captured() -> None:
    rows = torch.export.Dim("rows", max=9)
    with pytest.raises(CaptureError, match=r"output\['n'\] is no tensor but a number that the sizes"):
        xb.capture(_Sized(), (X,), ({0: rows},))


def test_outputs_beside_tensors_are_those_of_the_eager_model(tmp_path: Path) -> None:
    """A number of the capture that another run would not give must not be shipped as the model's."""
    counts = itertools.count()
    with pytest.raises(CaptureError, match="beside tensors is not what it gave when it was captured"):
        store(net(lambda m, x: (m.linear(x), next(counts))), (X,), tmp_path)


def test_an_error_names_the_line_of_the_model_that_it_came_from(tmp_path: Path) -> None:
    (tmp_path / "user_net.py").write_text(USER_NET)
    spec = importlib.util.spec_from_file_location("user_net", tmp_path / "user_net.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    with pytest.raises(CaptureError, match=r"cannot capture Wrong: .*user_net\.py:7: RuntimeError: "):
        xb.capture(module.Wrong(), (X,))
    with pytest.raises(CaptureError, match=r"fails on its own example inputs: .*user_net\.py:7: RuntimeError: mat1"):
        run_eagerly(module.Wrong(), (X,))


Q = torch.ones(1, 2, 8, 16)
FLOPS: dict[str, tuple[nn.Module, tuple[Any, ...], int]] = {
    "linear": (nn.Linear(4, 3), (X,), 2 * 2 * 4 * 3),
    "convolution": (nn.Conv2d(3, 8, 3, padding=1), (torch.ones(1, 3, 6, 5),), 2 * 8 * 6 * 5 * 3 * 3 * 3),
    "grouped": (nn.Conv2d(8, 8, 3, groups=8), (torch.ones(1, 8, 6, 6),), 2 * 8 * 4 * 4 * 3 * 3),
    "transposed": (nn.ConvTranspose2d(3, 8, 2, stride=2), (torch.ones(1, 3, 4, 4),), 2 * 3 * 4 * 4 * 8 * 2 * 2),
    "batched": (net(lambda m, x, y: x @ y), (torch.ones(3, 2, 4), torch.ones(3, 4, 5)), 2 * 3 * 2 * 4 * 5),
    "attention": (net(lambda m, q: nn.functional.scaled_dot_product_attention(q, q, q)), (Q,), 2 * 2 * 2 * 8 * 8 * 16),
    "recurrent": (net(lambda m, x: torch.gru_cell(x, x, *m.cell)), (X,), 2 * 2 * (2 * 4 * 12)),
    "nested": (net(lambda m, d: d["a"] @ d["b"][0]), ({"a": X, "b": [X.T.contiguous()]},), 2 * 2 * 4 * 2),
    "none": (net(lambda m, x: x.sin() + 1), (X,), 0),
}
FLOPS["recurrent"][0].cell = nn.ParameterList(torch.ones(12, 4) for _ in range(2))


@pytest.mark.parametrize("case", FLOPS)
def test_work_is_counted_as_by_hand(case: str, tmp_path: Path) -> None:
    module, inputs, wanted = FLOPS[case]
    assert store(module.eval(), inputs, tmp_path).flops == wanted
    assert torch.backends.mkldnn.enabled


def test_work_is_counted_where_torch_lets_no_flags_be_set(run_python: Callable[..., str]) -> None:
    code = """
import torch
from cross_backend.program.flops import count_flops
torch.backends.disable_global_flags()
x = torch.ones(2, 4)
print(count_flops(torch.export.export(torch.nn.Linear(4, 3), (x,)), (x,)))
"""
    assert run_python(code).split() == ["48"]


@pytest.mark.filterwarnings("ignore:The tensor attributes self._flat_weights")
def test_fused_recurrent_layers_are_counted_as_their_products() -> None:
    layer = nn.LSTM(4, 5, batch_first=True)
    inputs = (torch.ones(1, 3, 4),)
    program = xb.capture(layer, inputs)
    assert count_flops(program, inputs) == 2 * 3 * (4 * 20 + 5 * 20)


class _Branches(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        chosen: torch.Tensor = torch.cond(x.sum() > 0, self.linear, torch.sin, (x,))
        return chosen


def test_work_that_depends_on_the_input_is_not_counted(tmp_path: Path) -> None:
    """And counting never stops a capture."""
    (tmp_path / "branches").mkdir()
    assert store(_Branches().eval(), (X,), tmp_path / "branches").flops is None
    batch = torch.export.Dim("batch", min=1, max=8)
    assert write(xb.capture(nn.Linear(4, 4), (X,), ({0: batch},)), "net", tmp_path).flops is None


def test_labels_are_stored_beside_the_program_and_part_of_its_identity(tmp_path: Path) -> None:
    """Otherwise a model that was captured before would keep its old names."""
    plain = store(net(), (X,), tmp_path / "plain")
    cats, dogs = (store(net(), (X,), tmp_path / name, labels=(name, "ant")) for name in ("cat", "dog"))
    assert plain.labels_path is None
    assert cats.labels_path is not None and cats.labels_path.read_text() == "cat\nant\n"
    assert len({plain.digest, cats.digest, dogs.digest}) == 3
    cats.labels_path.write_text("changed")
    with pytest.raises(ArtifactError, match=r"labels\.txt is missing or damaged"):
        cats.check()


def test_a_task_is_stored_beside_the_program(tmp_path: Path) -> None:
    task = Task("top-1 accuracy", np.zeros((5, 4), np.float32), np.arange(5))
    captured = store(net(), (X,), tmp_path, task=task)
    assert captured.metric == "top-1 accuracy"
    groups = load_tensors(captured.task_path)
    assert (groups["input"][0].shape, groups["label"][0].tolist()) == ((5, 4), [0, 1, 2, 3, 4])


def test_a_pt2_file_is_a_workload(tmp_path: Path) -> None:
    torch.export.save(xb.capture(net(), (X,)), tmp_path / "a.pt2")
    (tmp_path / "out").mkdir()
    assert_consistent(write_capture(Workload("net", tmp_path / "a.pt2"), tmp_path / "out"))


@pytest.mark.parametrize("content", [b"", b"PK\3\4 not a zip", b"\0" * 999])
def test_a_damaged_pt2_file_is_refused(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "a.pt2"
    path.write_bytes(content)
    with pytest.raises(CaptureError, match=r"a\.pt2 is damaged or not a torch\.export file") as caught:
        load_pt2(path)
    assert "\n" not in str(caught.value)


def test_an_onnx_file_is_a_workload_with_a_reference_of_its_own(tmp_path: Path) -> None:
    made = torch.onnx.export(net(), (X,), dynamo=True, verbose=False)
    assert made is not None
    made.save(tmp_path / "a.onnx", external_data=True)
    (tmp_path / "out").mkdir()
    captured = write_capture(Workload("net", tmp_path / "a.onnx"), tmp_path / "out")
    assert isinstance(captured.program(), OnnxProgram)
    assert captured.flops is None
    sample = load_tensors(captured.sample_path)
    check_inputs(captured.inputs, sample["input"])
    expected = run_eagerly(net(), [torch.from_numpy(sample["input"][0])])
    np.testing.assert_allclose(sample["expected"][0], expected[0].numpy(), rtol=1e-5)


def test_a_pt2_file_that_calls_operators_of_other_packages_says_which(tmp_path: Path) -> None:
    """It is not damaged."""
    path = tmp_path / "twice.pt2"
    with torch.library._scoped_library("tests_foreign", "DEF") as library:
        library.define("twice(Tensor x) -> Tensor")
        library.impl("twice", lambda x: x * 2, "CompositeExplicitAutograd")
        torch.library.register_fake("tests_foreign::twice", torch.empty_like, lib=library)
        save_pt2(xb.capture(net(lambda m, x: torch.ops.tests_foreign.twice(x)), (X,)), path)
        load_pt2(path)  # made here, so that it may call what is none of torch's own
    with pytest.raises(CaptureError, match="calls the operator tests_foreign::twice, which torch does not have here"):
        load_pt2(path)


@pytest.mark.parametrize("content", [b"", b"not onnx", b"\x08\x0a" * 40])
def test_a_damaged_onnx_file_is_refused(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "a.onnx").write_bytes(content)
    (tmp_path / "out").mkdir()
    with pytest.raises(CaptureError, match=r"a\.onnx is damaged or not an ONNX model") as caught:
        write_capture(Workload("net", tmp_path / "a.onnx"), tmp_path / "out")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("how", ["missing", "cut", "other", "field"])
def test_a_damaged_capture_is_refused(how: str, linear: Captured, tmp_path: Path) -> None:
    folder = tmp_path / "capture"
    shutil.copytree(linear.folder, folder)
    path = folder / "capture.json"
    row = json.loads(path.read_text())
    if how == "missing":
        path.unlink()
    else:
        content = {"cut": path.read_text()[:50], "other": "[]", "field": json.dumps({**row, "inputs": [{"name": "x"}]})}
        path.write_text(content[how])
    with pytest.raises(ArtifactError, match="is not a captured workload"):
        Captured.read(folder)


# --- the whole program is its identity -----------------------------------------------------------------------------


def branching(x: Any, factor: float, kind: str) -> Any:
    if kind == "cond":
        return torch.cond(x.sum() > 0, lambda x: x * factor, lambda x: x - 1.0, (x,))
    if kind == "while_loop":
        found = torch.while_loop(lambda i, x: i < 3, lambda i, x: (i + 1, x * factor), (torch.tensor(0), x))
        return found[1]
    if kind == "map":
        return torch._higher_order_ops.map(lambda row: row * factor, x)
    with torch.no_grad() if kind == "no_grad" else torch.autocast("cpu", torch.bfloat16):
        return (x * factor).float() + torch.mm(x, x.T).float().sum()


@pytest.mark.parametrize("kind", ["cond", "while_loop", "map", "no_grad", "autocast"])
def test_what_changes_inside_of_a_region_is_another_program(kind: str) -> None:
    """The text of the top graph is the same; the branch that was edited was served from the cache once."""
    programs = [
        torch.export.export(net(lambda m, x, f=factor: branching(x, f, kind)), (X,)) for factor in (2.0, 3.0, 2.0)
    ]
    digests = [digest_program(program) for program in programs]
    assert digests[0] == digests[2] != digests[1]


def test_buffers_that_a_call_changes_are_state(tmp_path: Path) -> None:
    """A counter was refused: each call of the reference begins in the initial state, and so does the program."""
    module = net(lambda m, x: m.linear(x) + m.count.add_(1))
    captured = store(module, (X,), tmp_path)
    assert captured.proof["state"] == ["count"]
    sample = load_tensors(captured.sample_path)
    first, second, third = (sample[name][0] for name in ("expected", "step1.expected", "step2.expected"))
    with torch.no_grad():
        for step, found in enumerate((first, second, third)):
            wanted = module.linear(X * (1 - 0.25 * step)) + 1 + step
            assert np.allclose(found, wanted.numpy(), atol=1e-5), step
    assert "input2" not in sample and "probe1" not in sample


class _Rebinds(nn.Module):
    """Its counter is another tensor after each call, and a table of it lies in one element."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("calls", torch.zeros(1))
        self.register_buffer("table", torch.ones(1).expand(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls = self.calls + 1
        return x * self.table + self.calls


def test_a_reference_begins_in_its_initial_state_however_it_keeps_it(tmp_path: Path) -> None:
    captured = store(_Rebinds(), (X,), tmp_path)
    sample = load_tensors(captured.sample_path)
    assert np.allclose(sample["expected"][0], X.numpy() + 1)
    assert captured.proof["state"] == ["calls"] and np.allclose(sample["step2.expected"][0], X.numpy() * 0.5 + 3)
