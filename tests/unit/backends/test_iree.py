"""IREE: what a module dispatches, devices that a module is made for, attention, threads, and a wrong target caught."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import cross_backend as xb
from cross_backend.artifact import Artifact
from cross_backend.backends._vulkan import find_devices
from cross_backend.backends.iree._placement import dispatched, kernel_of, kind_of
from cross_backend.backends.iree._profile import record
from cross_backend.errors import ArtifactError, LoadError, LowerError, UnsupportedError
from cross_backend.records import Outcome
from cross_backend.registry import resolve
from cross_backend.tensors import load_tensors, to_numpy
from tests import needs

DISASSEMBLY = """\
vm.rodata[0] = 6D61696E246173796E635F64697370617463685F305F6D61746D756C5F347834783136
vm.rodata[1] = 5F656E636F64696E675F305F656E636F64655F387838663332
vm.func @__init() -> (!vm.ref<?>) {
  %r2 = vm.const.ref.rodata 0  // 36b
  %i6 = vm.call @hal.executable.lookup.function(%r4, %R2)
  vm.call.variadic @hal.command_buffer.dispatch segments[65535, 2](%r5, %r4, %i6, %i16)
  vm.call.variadic @hal.command_buffer.dispatch segments[65535, 2](%r5, %R4, %I6, %i16)
vm.func @__init() -> () {
  %r2 = vm.const.ref.rodata 1  // 36b
  %i6 = vm.call @hal.executable.lookup.function(%r4, %R2)
  vm.call.variadic @hal.command_buffer.dispatch segments[65535, 2](%r5, %r4, %i6, %i16)
"""


def _depthwise() -> tuple[nn.Module, tuple[torch.Tensor, ...]]:
    """Give a convolution whose kernel needs the barriers that IREE's default Vulkan target leaves out."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return nn.Conv2d(16, 16, 3, padding=1, groups=16).eval(), (torch.randn(1, 16, 14, 14),)


@pytest.fixture(scope="module")
def depthwise() -> torch.export.ExportedProgram:
    module, inputs = _depthwise()
    return xb.capture(module, inputs)


@pytest.fixture(scope="module")
def on_vulkan(depthwise: torch.export.ExportedProgram) -> Artifact:
    needs.no_space()
    needs.vulkan()
    return xb.lower(depthwise, "iree.vulkan", name="depthwise")


def test_counts_calls_and_leaves_out_what_is_done_while_loading() -> None:
    assert dispatched(iter(DISASSEMBLY.splitlines())) == ["main$async_dispatch_0_matmul_4x4x16"] * 2


@pytest.mark.parametrize(
    ("name", "kernel", "kind"),
    [
        ("main$async_dispatch_9_matmul_like_16x3136x16_f32", "matmul_like_16x3136x16_f32", "matmul_like"),
        ("main$async_dispatch_3_elementwise_broadcast_2x4_i64xf32", "elementwise_broadcast_2x4_i64xf32", None),
        ("main$async_dispatch_0_elementwise_Dx6_f32", "elementwise_Dx6_f32", "elementwise"),
        ("main$async_dispatch_0_elementwise_D_f32", "elementwise_D_f32", "elementwise"),
        ("_encoding_37_encode_16x3136xf32_to_16x1", "encode_16x3136xf32_to_16x1", "encode"),
        ("main$async_dispatch_3_slow_memcpy", "slow_memcpy", "slow_memcpy"),
        ("main$async_dispatch_7", "dispatch", "dispatch"),
    ],
)
def test_names_kernels_by_what_they_compute(name: str, kernel: str, kind: str | None) -> None:
    assert (kernel_of(name), kind_of(name)) == (kernel, kind or "elementwise_broadcast")


def test_the_placement_is_what_the_device_then_records(on_vulkan: Artifact) -> None:
    assert on_vulkan.sample_path is not None
    inputs = load_tensors(on_vulkan.sample_path)["input"]
    recorded = record(on_vulkan, inputs, 1, ["--device=vulkan"], "dispatch-events")[0]
    assert (recorded.on_device, recorded.on_host) == (on_vulkan.placement.inside_count, 0)
    kinds: Counter[str] = Counter()
    for row in recorded.rows:
        kinds[kind_of(f"main$async_dispatch_0_{row.name}")] += row.calls
    assert kinds == {row.name: row.count for row in on_vulkan.placement.inside}


@pytest.mark.slow
def test_the_wrong_default_target_is_caught_as_mismatch() -> None:
    """IREE's own default assumes subgroups of 64; Mesa's software driver has 8, and gets wrong outputs without ours."""
    needs.no_space()
    needs.vulkan()
    software = find_devices().devices[0]
    assert "llvmpipe" in software.name, "this test is about Mesa's software driver"
    module, inputs = _depthwise()
    targets = ["iree.vulkan", "iree.vulkan?subgroup=default"]
    panel = xb.compare(module, targets, inputs, num_runs=6, seconds=0.2)
    right, wrong = panel.results
    assert right.outcome is Outcome.OK, right.reason
    assert right.comparison is not None and right.comparison.max_rel < 1e-5
    assert wrong.outcome is Outcome.MISMATCH
    assert wrong.comparison is not None and wrong.comparison.max_rel > 0.1
    assert wrong.latency is None and wrong.rank is None, "no speed without proof"


def test_a_module_for_other_subgroups_is_refused(depthwise: torch.export.ExportedProgram) -> None:
    needs.no_space()
    needs.vulkan()
    here = find_devices().devices[0].subgroup
    other = 16 if here != 16 else 32
    artifact = xb.lower(depthwise, f"iree.vulkan?subgroup={other}", name="depthwise")
    with pytest.raises(LoadError, match=f"subgroups of {other} invocations.*has {here}"), xb.load(artifact):
        pass


def test_an_artifact_is_known_by_its_devices_subgroups() -> None:
    needs.vulkan()
    backend = resolve("iree.vulkan").backend
    assert backend.depends_on({"subgroup": "auto"}) == f"subgroup {find_devices().devices[0].subgroup}"
    assert backend.depends_on({"subgroup": "16"}) is None, "the target's own text says it"
    assert resolve("iree.llvm_cpu").backend.depends_on({}) is None


def test_says_on_which_device_it_ran_and_that_it_is_software(on_vulkan: Artifact) -> None:
    assert on_vulkan.sample_path is not None
    resolved = resolve("iree.vulkan")
    inputs = load_tensors(on_vulkan.sample_path)["input"]
    execution = resolved.backend.execution(on_vulkan, resolved.options, inputs)
    assert execution is not None
    assert execution.device == f"Vulkan ({find_devices().devices[0].name})"
    assert execution.nodes == 1
    assert execution.functional_only is not None and "software driver" in execution.functional_only


@pytest.mark.parametrize(("threads", "most"), [(1, 1), (3, 4)])
def test_runs_on_as_many_threads_as_asked(depthwise: torch.export.ExportedProgram, threads: int, most: int) -> None:
    """Beside its workers IREE has one thread that waits for events."""
    needs.no_space()
    artifact = xb.lower(depthwise, "iree.llvm_cpu", name="depthwise")
    module, inputs = _depthwise()

    def count() -> int:
        return len(list(Path("/proc/self/task").iterdir()))

    before, python = count(), threading.active_count()
    with xb.load(artifact, threads=threads) as session:
        output = session(*inputs)
        assert threading.active_count() == python
        assert count() - before == most
    torch.testing.assert_close(output, module(*inputs), rtol=1e-4, atol=1e-5)


_SESSIONS = """
import faulthandler, sys
import numpy as np
import cross_backend as xb
artifact, x = xb.Artifact.read(sys.argv[1]), np.load(sys.argv[2])
for _ in range(3000):
    faulthandler.dump_traceback_later(60, exit=True)
    with xb.load(artifact, threads=3) as session:
        session(x)
"""


@pytest.mark.slow
def test_no_session_waits_for_ever_as_it_closes(depthwise: torch.export.ExportedProgram, tmp_path: Path) -> None:
    """One of a thousand did: a thread of IREE's wanted the interpreter from whoever waited for it."""
    needs.no_space()
    artifact = xb.lower(depthwise, "iree.llvm_cpu", name="depthwise")
    np.save(tmp_path / "x.npy", _depthwise()[1][0].numpy())
    command = [sys.executable, "-c", _SESSIONS, str(artifact.manifest_path), str(tmp_path / "x.npy")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]


class _Attention(nn.Module):
    def forward(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        attend = nn.functional.scaled_dot_product_attention
        keep = torch.ones(q.shape[-2], k.shape[-2], dtype=torch.bool).tril()
        shift = torch.where(keep, 0.0, -1e4)
        causal = attend(q, k, v, is_causal=True) + attend(q, k, v, attn_mask=keep, scale=0.3)
        return causal + attend(q, k, v, attn_mask=shift)


@pytest.mark.slow
@pytest.mark.parametrize("target", ["iree.llvm_cpu", pytest.param("iree.vulkan", marks=pytest.mark.slow)])
def test_attention_is_right_where_the_fused_one_is_refused(target: str) -> None:
    needs.no_space()
    if target == "iree.vulkan":
        needs.vulkan()
    module, inputs = _Attention().eval(), tuple(torch.randn(2, 4, 8, 16) for _ in range(3))
    artifact = xb.lower(xb.capture(module, inputs), target, name="attention")
    with xb.load(artifact) as session:
        torch.testing.assert_close(session(*inputs), module(*inputs), rtol=1e-4, atol=1e-5)


class _Function(nn.Module):
    def __init__(self, function: Any) -> None:
        super().__init__()
        self.function, self.conv, self.narrow = function, nn.Conv2d(3, 4, 3), nn.Linear(4, 4).bfloat16()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = self.function(self, x)
        return found


@pytest.mark.parametrize(
    ("function", "x"),
    [
        (lambda m, x: x.float() * 2, torch.linspace(-2, 2, 48).reshape(3, 16).half()),
        (lambda m, x: x * 2, torch.linspace(-2, 2, 48).reshape(3, 16).half()),
        (lambda m, x: x.float() / 255, torch.arange(48, dtype=torch.uint8).reshape(3, 16) * 5),
        (lambda m, x: x.float() * 0.1, torch.arange(-24, 24, dtype=torch.int8).reshape(3, 16)),
    ],
    ids=["float16 in", "float16 in and out", "uint8", "int8"],
)
def test_kernels_for_vulkan_read_narrow_types_as_they_are(function: Any, x: torch.Tensor) -> None:
    """Its default target has 32 bits alone and emulates these, wrongly."""
    needs.no_space()
    needs.vulkan()
    with xb.load(xb.lower(xb.capture(_Function(function), (x,)), "iree.vulkan", name="narrow")) as session:
        for given in (x, x.flip(0)):
            torch.testing.assert_close(session(given), function(None, given))


@pytest.mark.parametrize(
    ("function", "x", "reason"),
    [
        (lambda m, x: m.conv(x.float()), torch.ones(1, 3, 8, 8, dtype=torch.uint8), r"convolution follows .* uint8"),
        (lambda m, x: m.narrow(x), torch.ones(2, 4).bfloat16(), "no bfloat16 weights"),
        (lambda m, x: x * 2, torch.ones(2, 4).double(), "no float64"),
    ],
    ids=["bytes into a convolution", "bfloat16 weights", "float64"],
)
def test_what_vulkan_would_compute_wrongly_is_refused(function: Any, x: torch.Tensor, reason: str) -> None:
    needs.no_space()
    with pytest.raises(UnsupportedError, match=reason):
        xb.lower(xb.capture(_Function(function), (x,)), "iree.vulkan", name="refused")


def test_float64_stays_float64_on_the_processor() -> None:
    needs.no_space()
    x = torch.linspace(0, 1, 6).double()
    with xb.load(xb.lower(xb.capture(_Function(lambda m, x: x / 3), (x,)), "iree", name="wide")) as session:
        assert session(x).dtype == torch.float64
        torch.testing.assert_close(session(x), x / 3)


def test_a_program_that_the_compiler_refuses_fails_in_one_line() -> None:
    needs.no_space()

    class Sorted(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.linalg.eigvalsh(x @ x.T)

    program = xb.capture(Sorted(), (torch.randn(4, 4),))
    with pytest.raises(LowerError, match=r"^IREE|^iree-compile") as caught:
        xb.lower(program, "iree", name="sorted")
    assert "\n" not in str(caught.value)


def test_a_damaged_module_is_refused_by_the_runtime_too(
    depthwise: torch.export.ExportedProgram, tmp_path: Path
) -> None:
    needs.no_space()
    artifact = xb.lower(depthwise, "iree.llvm_cpu", name="depthwise", output_dir=tmp_path)
    artifact.payload_path.write_bytes(b"PK\3\4" + bytes(1000))
    with pytest.raises(ArtifactError, match="is not the payload"):
        xb.load(artifact)
    needs.no_space()
    resolved = resolve("iree.llvm_cpu")
    with pytest.raises(LoadError, match="IREE cannot load"), resolved.backend.load(artifact, resolved.options):
        pass


def test_outputs_stay_on_the_device_until_they_are_read(on_vulkan: Artifact) -> None:
    module, inputs = _depthwise()
    with xb.load(on_vulkan) as session:
        (output,) = session.bind(inputs)()
        assert not isinstance(output, np.ndarray | torch.Tensor)
        given: Any = output
        assert (given.shape, given.dtype) == ((1, 16, 14, 14), np.float32)
        expected = module(*inputs).detach().numpy()
        np.testing.assert_allclose(to_numpy(output), expected, rtol=1e-4, atol=1e-5)
        assert np.asarray(output, np.float64).dtype == np.float64


def test_takes_an_old_onnx_file(tmp_path: Path) -> None:
    needs.no_space()
    import onnx
    from onnx import TensorProto, helper

    x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, [2, 3]) for n in ("x", "y"))
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "net", [x], [y])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 12)], ir_version=7)
    onnx.save(model, tmp_path / "net.onnx")
    artifact = xb.lower(xb.OnnxProgram(tmp_path / "net.onnx"), "iree", name="net")
    values = np.array([[-1, 2, -3], [4, -5, 6]], np.float32)
    with xb.load(artifact) as session:
        np.testing.assert_array_equal(session(values), np.maximum(values, 0))
