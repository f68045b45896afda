"""float16 targets of the CPU: float16 inside, the model's own inputs and outputs outside."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import cross_backend as xb
from cross_backend.backends.executorch._half import decomposed, to_half
from cross_backend.backends.executorch._pte import flatbuffer_in, flatbuffer_json
from cross_backend.names.platforms import PLATFORMS
from cross_backend.registry import find_backend, resolve
from cross_backend.verify.compare import compare_outputs, precision_of


class _Everything(torch.nn.Module):
    """Masks that float16 does not hold, an activation that torch computes in float32, branches, other types."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm, self.last = torch.nn.Conv2d(3, 8, 3), torch.nn.BatchNorm2d(8), torch.nn.Linear(8, 4)
        self.register_buffer("mask", torch.tensor([0.0, -1e9, 0.0, float("-inf")]))

    def forward(self, x: torch.Tensor, n: torch.Tensor) -> Any:
        y = self.last(torch.nn.functional.hardsigmoid(self.norm(self.conv(x))).mean((2, 3)))
        y = torch.cond(x.sum() > 1e9, lambda y: y * 2 + torch.ones(4, dtype=torch.float32), lambda y: y - 1, (y,))
        y = y.masked_fill(self.mask < -1, torch.finfo(torch.float32).min)
        return torch.softmax(y + self.mask, -1), n + 1, y > -1e9, n.double() * 0.5


def test_all_that_was_float32_is_float16_but_for_inputs_and_outputs() -> None:
    torch.manual_seed(0)
    net, inputs = _Everything().eval(), (torch.randn(2, 3, 8, 8), torch.arange(4))
    program = xb.capture(net, inputs, ({0: torch.export.Dim("batch")}, None))
    before = str(program.graph)
    half = to_half(decomposed(program, ()))
    wide = [n for n in half.graph.nodes if getattr(n.meta.get("val"), "dtype", None) == torch.float32]
    assert [node.op for node in wide] == ["placeholder", "call_function"] and wide[0].name == "x"
    tensors = [*half.state_dict.values(), *half.constants.values()]
    assert not any(x.dtype == torch.float32 for x in tensors)
    assert all(x.isfinite().all() or x.isinf().sum() == 1 for x in tensors), "-1e9 became a finite number, -inf stays"
    assert str(program.graph) == before and program.state_dict["last.weight"].dtype == torch.float32
    with torch.no_grad():
        got, want = half.module()(*inputs), net(*inputs)
    assert [y.dtype for y in got] == [torch.float32, torch.int64, torch.bool, torch.float64]
    torch.testing.assert_close(got, want, atol=1e-3, rtol=1e-2)


@pytest.fixture(scope="module")
def small() -> tuple[torch.nn.Module, tuple[torch.Tensor]]:
    torch.manual_seed(0)
    layers = (torch.nn.Conv2d(3, 16, 3), torch.nn.Hardsigmoid(), torch.nn.Flatten(), torch.nn.Linear(16 * 36, 64))
    return torch.nn.Sequential(*layers).eval(), (torch.randn(1, 3, 8, 8),)


@pytest.mark.parametrize("name", ["xnnpack", "portable"])
def test_a_cpu_target_computes_in_float16(name: str, small: tuple[torch.nn.Module, tuple[torch.Tensor]]) -> None:
    net, inputs = small
    program = xb.capture(net, inputs)
    half = xb.lower(program, f"{name}?precision=fp16")
    weights = sum(parameter.numel() for parameter in net.parameters())
    assert 2 * weights < half.size_bytes < 2.4 * weights, "two bytes each"
    assert [spec.dtype for spec in (*half.inputs, *half.outputs)] == ["float32", "float32"]
    left = {row.name for row in half.placement.left}
    assert left == ({"dim_order_ops::_to_dim_order_copy.out"} if name == "xnnpack" else set())
    with xb.load(half) as session:
        outputs = [session(inputs[0].numpy())]
    comparison = compare_outputs(
        {"expected": [net(*inputs).detach().numpy()]}, [outputs], precision_of(resolve(half.target).options)
    )
    assert comparison.verdict
    assert comparison.max_rel > 1e-5, "nothing that exact is float16"
    if name == "xnnpack":
        _check_values(half)


@pytest.mark.parametrize("name", ["xnnpack", "portable"])
def test_a_wide_layer_norm_is_right_in_float16(name: str) -> None:
    """ExecuTorch's own kernel for it is not: every transformer of 256 channels or more was wrong."""
    torch.manual_seed(0)
    net, x = torch.nn.Sequential(torch.nn.LayerNorm(256), torch.nn.Linear(256, 16)).eval(), torch.randn(1, 8, 256)
    with xb.load(xb.lower(xb.capture(net, (x,)), f"{name}?precision=fp16")) as session:
        torch.testing.assert_close(session(x), net(x), atol=0.02, rtol=0.02)


def _check_values(artifact: xb.Artifact) -> None:
    """Find no float32 among what XNNPACK computes; weights of convolutions it keeps wide, and casts at load."""
    from executorch.exir._serialize._program import deserialize_pte_binary

    (blob,) = deserialize_pte_binary(artifact.payload_path.read_bytes()).program.backend_delegate_data
    schema = "executorch.backends.xnnpack.serialization"
    values = [row["xvalue_union"] for row in flatbuffer_json(schema, flatbuffer_in(blob.data, b"XH00"))["xvalues"]]
    computed = {row["datatype"] for row in values if not row.get("constant_buffer_idx")}
    assert computed == {"xnn_datatype_fp16"}


def test_every_platform_keeps_its_cpu_fallback_in_float16() -> None:
    for platform in PLATFORMS.values():
        fallback = find_backend(platform.backends[-1])
        assert "fp16" in fallback.options["precision"].choices, platform.name
