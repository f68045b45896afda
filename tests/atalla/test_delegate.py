"""Delegate: what ExecuTorch's own runtime gives with AtallaBackend is what eager gives; what is damaged is an error."""

from __future__ import annotations

import ctypes
import functools
import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils import _pytree as pytree

from atalla import AtallaError, CompileError
from atalla.blob.reader import parse
from atalla.build import SETS
from atalla.isa import Op
from tests import needs
from tests.atalla.nets import NETS

pytest.importorskip("executorch")

ROOT = Path(__file__).parents[2]


class Split(nn.Module):
    """An operator that no instruction does, between two convolutions."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(3, 8, 3, padding=1), nn.Conv2d(8, 4, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = nn.functional.hardswish(self.first(x))
        values, _ = torch.topk(y, 4)
        return self.second(values).relu() * 0.5


class Cnn(nn.Module):
    """A small one that has everything in one partition."""

    def __init__(self) -> None:
        super().__init__()
        self.stem, self.norm = nn.Conv2d(3, 16, 3, stride=2, padding=1, bias=False), nn.BatchNorm2d(16)
        self.depth, self.head = nn.Conv2d(16, 16, 3, padding=1, groups=16), nn.Linear(16, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = nn.functional.hardswish(self.norm(self.stem(x)))
        y = self.depth(y) + y
        return self.head(nn.functional.adaptive_avg_pool2d(y, 1).flatten(1)).softmax(-1)


def edge(module: nn.Module, inputs: Sequence[Any], **options: Any) -> Any:
    from executorch.exir import EdgeCompileConfig, to_edge_transform_and_lower

    from atalla.executorch.delegate import AtallaPartitioner, beyond_core

    program = torch.export.export(module.eval(), tuple(inputs))
    config = EdgeCompileConfig(_core_aten_ops_exception_list=beyond_core())
    return to_edge_transform_and_lower(program, partitioner=[AtallaPartitioner(**options)], compile_config=config)


@dataclass(frozen=True)
class Lowered:
    """A network, what it was given, its one delegate, and the program around this."""

    module: nn.Module
    x: torch.Tensor
    blob: bytes
    program: bytes


@functools.cache
def lowered_cnn(alignment: int | None = None, **options: Any) -> Lowered:
    """Lower the small network, once for all tests that want it so."""
    from executorch.exir import ExecutorchBackendConfig

    torch.manual_seed(0)
    module, x = Cnn(), torch.randn(2, 3, 16, 16)
    lowered = edge(module, [x], **options)
    (blob,) = blobs(lowered)
    return Lowered(module, x, blob, lowered.to_executorch(ExecutorchBackendConfig(delegate_alignment=alignment)).buffer)


def operators(program: Any) -> list[str]:
    """Give the operators outside delegates, and ``delegate`` for each of these."""
    from executorch.exir.delegate import executorch_call_delegate

    names = {executorch_call_delegate: "delegate"}
    nodes = [node for node in program.exported_program().graph.nodes if node.op == "call_function"]
    return [
        names.get(node.target) or str(getattr(node.target, "_op", node.target))
        for node in nodes
        if getattr(node.target, "__name__", "") != "getitem"
    ]


Run = Callable[..., list[torch.Tensor]]


@pytest.fixture(scope="session")
def run(library: Path) -> Run:
    """Give a function that runs a program, given as bytes, in the package's own runtime."""
    needs.program("c++")
    from executorch.extension.pybindings import _C

    from atalla.executorch import build_delegate

    build_delegate.load()
    assert "AtallaBackend" in _C._get_registered_backend_names()
    kept: list[bytes] = []

    def call(program: bytes, *inputs: torch.Tensor) -> list[torch.Tensor]:
        kept.append(program)  # the runtime borrows it
        method = _C._load_program_from_buffer(program).load_method("forward")
        return [y.clone() for y in method([x.clone(memory_format=torch.contiguous_format) for x in inputs])]

    return call


def same(found: Sequence[torch.Tensor], wanted: Sequence[torch.Tensor]) -> None:
    assert len(found) == len(wanted)
    for one, other in zip(found, wanted, strict=True):
        assert one.dtype is other.dtype and one.shape == other.shape
        torch.testing.assert_close(one, other, rtol=2e-5, atol=2e-5, equal_nan=True)


MORE = ("eager_attention", "whole_numbers", "decoder", "messages")


@pytest.mark.parametrize("name", ["squeeze", "warped", *(pytest.param(name, marks=pytest.mark.slow) for name in MORE)])
def test_a_whole_network_is_one_delegate(name: str, run: Run) -> None:
    torch.manual_seed(0)
    module, inputs = NETS[name]()
    lowered = edge(module, inputs)
    assert operators(lowered) == ["delegate"]
    tensors = [x for x in inputs if isinstance(x, torch.Tensor)]
    with torch.no_grad():
        same(run(lowered.to_executorch().buffer, *tensors), pytree.tree_leaves(module(*inputs)))


def test_composites_arrive_whole() -> None:
    kinds = [row.op for row in parse(lowered_cnn().blob).instructions]
    assert Op.CALL_HOST not in kinds
    assert {Op.CONV2D, Op.DWCONV2D, Op.GEMM, Op.SOFTMAX} <= set(kinds)
    assert Op.EW not in kinds, "hardswish and the sum are part of a convolution"


@pytest.mark.parametrize("exact", [False, True])
def test_exact_means_no_winograd(exact: bool) -> None:
    module, inputs = NETS["winograd"]()
    (blob,) = blobs(edge(module, inputs, exact=exact))
    kinds = {row.op for row in parse(blob).instructions}
    assert (Op.CONV2D_WINO in kinds, Op.CONV2D in kinds) == (not exact, exact)


def test_a_partition_multiplies_in_bfloat16(run: Run) -> None:
    torch.manual_seed(0)
    module, inputs = NETS["winograd"]()
    lowered = edge(module, inputs, bf16=True)
    (blob,) = blobs(lowered)
    kinds = {row.op for row in parse(blob).instructions}
    assert Op.BCONV2D in kinds and not kinds & {Op.CONV2D, Op.CONV2D_WINO}
    (found,), wanted = run(lowered.to_executorch().buffer, *inputs), module(*inputs)
    assert 0 < (found - wanted).norm() < 0.02 * wanted.norm()


def blobs(lowered: Any) -> list[bytes]:
    from executorch.exir.lowered_backend_module import get_lowered_submodules

    modules = get_lowered_submodules(lowered.exported_program().graph_module)
    assert {module.backend_id for _, module, _ in modules} == {"AtallaBackend"}
    return [module.processed_bytes for _, module, _ in modules]


def test_what_no_instruction_does_runs_between_two_delegates(run: Run, caplog: pytest.LogCaptureFixture) -> None:
    torch.manual_seed(0)
    module, x = Split(), torch.randn(1, 3, 8, 8)
    with caplog.at_level("INFO", "atalla.executorch.delegate"):
        lowered = edge(module, [x])
    assert operators(lowered) == ["delegate", "aten.topk.default", "delegate"]
    assert "aten_topk_default" in caplog.text and "no instruction does it" in caplog.text
    with torch.no_grad():
        same(run(lowered.to_executorch().buffer, x), [module(x)])


def test_a_composite_without_a_rule_is_taken_apart_or_left(run: Run) -> None:
    """A convolution whose weights are an input: ExecuTorch would refuse it whole."""

    class Given(nn.Module):
        def forward(self, x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
            return nn.functional.hardswish(nn.functional.conv2d(x, weight)) + 1

    module, inputs = Given(), (torch.randn(1, 3, 6, 6), torch.randn(4, 3, 3, 3))
    lowered = edge(module, inputs)
    assert operators(lowered) == ["aten.convolution.default", "delegate"]
    same(run(lowered.to_executorch().buffer, *inputs), [module(*inputs)])


def test_what_computes_nothing_is_not_delegated() -> None:
    class Views(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.topk(x, 2)[0].view(2, 4)

    assert "delegate" not in operators(edge(Views(), [torch.randn(4, 8)]))


def test_a_dynamic_shape_is_left(run: Run) -> None:
    from executorch.exir import to_edge_transform_and_lower

    from atalla.executorch.delegate import AtallaPartitioner

    module = nn.Sequential(nn.Linear(4, 3), nn.ReLU())
    batch = torch.export.Dim("batch", min=1, max=8)
    program = torch.export.export(module, (torch.randn(2, 4),), dynamic_shapes=({0: batch},))
    lowered = to_edge_transform_and_lower(program, partitioner=[AtallaPartitioner()])
    assert "delegate" not in operators(lowered)
    x = torch.randn(5, 4)
    with torch.no_grad():
        same(run(lowered.to_executorch().buffer, x), [module(x)])


def test_a_buffer_that_changes_stays_outside() -> None:
    class Counts(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("seen", torch.zeros(2))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.seen.add_(1)
            return x * self.seen

    x = torch.tensor([2.0, 3.0])
    lowered = edge(Counts(), [x])
    assert "delegate" in operators(lowered)
    (blob,) = blobs(lowered)
    assert len(parse(blob).inputs) == 2, "the buffer is given with every call"
    assert "seen" in lowered.exported_program().graph_signature.buffers_to_mutate.values()


@pytest.mark.parametrize("alignment", [None, 4096])
@pytest.mark.parametrize("shift", [0, 1, 64])
def test_a_blob_runs_wherever_it_lies(alignment: int | None, shift: int, run: Run, tmp_path: Path) -> None:
    """The program is in memory where its blob is aligned, or not: then the delegate copies it."""
    from executorch.extension.pybindings import _C

    lowered = lowered_cnn(alignment)
    x, program = lowered.x, lowered.program
    with torch.no_grad():
        wanted = [lowered.module(x)]
    room = bytes(shift) + program
    same(run(room[shift:], x), wanted)
    file = tmp_path / "x.pte"
    file.write_bytes(program)
    same(_C._load_program(str(file)).load_method("forward")([x]), wanted)


def test_a_damaged_blob_is_an_error_and_not_a_crash(run: Run) -> None:
    """In this process: a crash would end the tests. Every third byte of what is not constants, and some of these."""
    torch.manual_seed(0)
    lowered = edge(nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 4)), [torch.randn(2, 6)])
    (blob,) = blobs(lowered)
    program, x = lowered.to_executorch().buffer, torch.randn(2, 6)
    start = program.index(blob[:64])
    assert program[start : start + len(blob)] == blob
    places = [*range(0, len(blob) - parse(blob).constant_bytes, 3), len(blob) - 1]
    for place in places[:: max(1, len(places) // 150)]:
        damaged = bytearray(program)
        damaged[start + place] ^= 0x41
        with pytest.raises(RuntimeError, match=r"(?i)load.*method|0x23|0x30"):
            run(bytes(damaged), x)
    same(run(program, x), run(program, x))


def test_wrong_inputs_are_an_error(run: Run) -> None:
    lowered = edge(nn.Linear(6, 3), [torch.randn(2, 6)])
    program = lowered.to_executorch().buffer
    for wrong in (torch.randn(3, 6), torch.randn(2, 6).double(), torch.randn(12)):
        with pytest.raises(RuntimeError):
            run(program, wrong)


@pytest.mark.parametrize("threads", [1, 3])
def test_threads(threads: int, run: Run) -> None:
    from atalla.executorch import build_delegate

    def running() -> int:
        return len(list(Path("/proc/self/task").iterdir())) if sys.platform == "linux" else 0

    lowered = lowered_cnn(threads=7)
    from executorch.extension.pybindings import _C

    build_delegate.set_threads(threads)
    before = running()
    method = _C._load_program_from_buffer(lowered.program).load_method("forward")
    if sys.platform == "linux":
        assert running() - before == threads - 1, "what is said now goes before what it was compiled with"
    with torch.no_grad():
        same(method([lowered.x]), [lowered.module(lowered.x)])
    for wrong in (0, -1, 5000):
        with pytest.raises(AtallaError, match="from 1 to 4096"):
            build_delegate.set_threads(wrong)


def test_the_profiler_is_told_of_each_instruction(run: Run, tmp_path: Path) -> None:
    from executorch.devtools import Inspector
    from executorch.extension.pybindings import _C

    lowered = lowered_cnn()
    file = tmp_path / "x.pte"
    file.write_bytes(lowered.program)
    program = _C._load_program(str(file), enable_etdump=True)
    program.load_method("forward")([lowered.x])
    program.write_etdump_result_to_file(str(tmp_path / "x.etdp"))
    with pytest.warns(UserWarning, match="Output Buffer not found"):  # outputs were not to be recorded
        inspector = Inspector(etdump_path=str(tmp_path / "x.etdp"))
    events = [event for block in inspector.event_blocks for event in block.events]
    told = [event.name for event in events if event.is_delegated_op]
    assert told == [f"{row.op.name} {row.node}" for row in parse(lowered.blob).instructions if row.op is not Op.END]


def test_an_unknown_compile_spec_is_refused() -> None:
    from executorch.exir.backend.compile_spec_schema import CompileSpec

    from atalla.executorch.delegate import AtallaBackend

    program = torch.export.export(nn.ReLU(), (torch.randn(2),))
    with pytest.raises(CompileError, match="unknown compile specs: speed"):
        AtallaBackend.preprocess(program, [CompileSpec("speed", b"9")])


def test_without_a_compiler_it_says_what_to_do(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from atalla.executorch import build_delegate

    monkeypatch.setenv("CXX", "no-such-compiler")
    with pytest.raises(AtallaError, match=r"no C\+\+ compiler 'no-such-compiler'.*apt-get install g\+\+") as caught:
        build_delegate.build(tmp_path / "x.so")
    assert "\n" not in str(caught.value)
    assert not list(tmp_path.iterdir())
    done = subprocess.run(
        [sys.executable, "-m", "atalla.executorch.build_delegate"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 1 and done.stderr.count("\n") == 1 and "apt-get install g++" in done.stderr


def test_the_description_of_a_blob_is_what_it_says(run: Run) -> None:
    """What the delegate checks tensors against, through the C ABI."""
    from atalla.library import CTensor, library
    from atalla.run.kernels import OpenBlob

    class Instruction(ctypes.Structure):
        _fields_ = (
            ("struct_size", ctypes.c_size_t),
            ("op", ctypes.c_char_p),
            ("node", ctypes.POINTER(ctypes.c_char)),
            ("node_size", ctypes.c_size_t),
        )

    blob = lowered_cnn().blob
    opened, listing = OpenBlob(blob), parse(blob)
    for function, numbers in (
        (library().atalla_describe_input, listing.inputs),
        (library().atalla_describe_output, [number for _, number in listing.outputs]),
    ):
        tensor = CTensor(struct_size=ctypes.sizeof(CTensor))
        assert function(opened.handle, ctypes.c_uint32(len(numbers)), ctypes.byref(tensor)) == 2
        for index, number in enumerate(numbers):
            assert function(opened.handle, ctypes.c_uint32(index), ctypes.byref(tensor)) == 0
            row = listing.tensors[number]
            assert (tensor.dtype, tuple(tensor.shape[: tensor.rank])) == (row.dtype, row.shape)
            assert tuple(tensor.strides[: tensor.rank]) == row.strides
    described = Instruction(struct_size=ctypes.sizeof(Instruction))
    describe = library().atalla_describe_instruction
    for index, row in enumerate(listing.instructions):
        assert describe(opened.handle, ctypes.c_uint32(index), ctypes.byref(described)) == 0
        assert (described.op, described.node[: described.node_size]) == (row.op.name.encode(), row.node.encode())
    assert describe(opened.handle, ctypes.c_uint32(len(listing.instructions)), ctypes.byref(described)) == 2


def test_the_runner_compiles_kernels_as_the_package_does() -> None:
    text = (ROOT / "runner" / "cmake" / "link_atalla.cmake").read_text()
    found = {name: tuple(flags.split()) for name, flags in re.findall(r"set\(ATALLA_X86_FLAGS_(\w+) (.*)\)", text)}
    assert found == {name: flags for name, flags in SETS.items() if flags}
