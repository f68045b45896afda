"""Placement of ExecuTorch's backends: why an operator was left, from which line, at what cost, read from the file."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import nn

import cross_backend as xb
from cross_backend.artifact import Artifact
from cross_backend.backends.executorch._placement import _readable, watch_rejections
from cross_backend.backends.executorch._pte import ExecuTorchBackend
from cross_backend.errors import LowerError
from cross_backend.placement import Operators
from cross_backend.program.flops import count_flops
from cross_backend.program.lines import user_line
from cross_backend.registry import find_backend, resolve

SOURCE = """\
import torch
from torch import nn
class Odd(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.fc = nn.Conv2d(3, 8, 3, padding=1), nn.Linear(8, 10)
    def forward(self, x):
        y = torch.relu(self.conv(x))
        y = y.mean((2, 3))
        z = torch.asinh(torch.tanh(y))
        values, index = torch.sort(z, dim=1)
        k = index * 2
        w = values.double().erf().float()
        q = self.fc(values + w)
        m = q.T @ q
        b = torch.bmm(q[:, None, :].double(), q[:, :, None].double()).float()
        return m + b[0], k
class Branches(nn.Module):
    def forward(self, x):
        y = torch.cond(x.sum() > 0, lambda t: t.sin() @ t, lambda t: (t @ t).cumsum(1), (x,))
        return y.asinh() + x
class Batch(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc, self.norm = nn.Linear(4, 4), nn.LayerNorm(4)
    def forward(self, x):
        y = self.fc(x)
        part = y[:, 1:]
        total = y.cumsum(0)
        halves = torch.asinh(y.view(x.shape[0] * 2, 2))
        return self.norm(y), part, total, halves
"""
CONV, FC, MM, BMM = 2 * 8 * 16 * 16 * 3 * 9, 2 * 8 * 10, 2 * 10 * 10, 2 * 10
"""Multiply-adds, twice, counted by hand: 8 maps of 16 × 16 from 3 × 3 × 3, 8 to 10, 10 × 1 by 1 × 10, 10 by 10."""
PARAMETER_BYTES = 4 * (8 * 27 + 8 + 8 * 10 + 10)
ACTIVATION_BYTES = 4 * 8 * 16 * 16

Lowered = Callable[[str], Artifact]


@pytest.fixture(scope="module")
def user(tmp_path_factory: pytest.TempPathFactory) -> ModuleType:
    """Import a user's file."""
    path = tmp_path_factory.mktemp("user") / "odd.py"
    path.write_text(SOURCE)
    spec = importlib.util.spec_from_file_location("odd", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def lowered(user: ModuleType) -> Lowered:
    """Give a function that lowers the odd network."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        program = xb.capture(user.Odd().eval(), (torch.randn(1, 3, 16, 16),))
    return cache(lambda target: xb.lower(program, target, name="odd"))


def line(number: int) -> str:
    """Give what a certificate says of a line of the user's file."""
    return f"odd.py:{number} forward: {SOURCE.splitlines()[number - 1].strip()}"


TABLE = "not in its table of operators"
KNOWN = "{torch.bool, torch.float16, torch.float32, torch.int32, torch.int64}"
LEFT = {
    "executorch.coreml": (
        Operators(
            "aten::asinh.out",
            1,
            "refused by its partitioner, for its arguments or for a known fault of Core ML's converter",
            0,
            (line(10),),
        ),
    ),
    "executorch.portable": (),
    "executorch.vulkan": (
        Operators(
            "aten::bmm.out", 1, "input[0] dtype torch.float64 not in {torch.float16, torch.float32}", BMM, (line(16),)
        ),
        Operators(
            "dim_order_ops::_to_dim_order_copy.out",
            3,
            f"output dtype torch.float64 not in {KNOWN}",
            0,
            (line(13), line(16)),
        ),
        Operators(
            "dim_order_ops::_to_dim_order_copy.out",
            2,
            f"input[0] dtype torch.float64 not in {KNOWN}",
            0,
            (line(13), line(16)),
        ),
        Operators("aten::asinh.out", 1, "no operator implementation", 0, (line(10),)),
        Operators("aten::erf.out", 1, "no operator implementation", 0, (line(13),)),
        Operators("aten::mean.out", 1, "op args not supported", 0, (line(9),)),
        Operators("aten::sort.values", 1, "no operator implementation", 0, (line(11),)),
    ),
    "executorch.xnnpack": (
        Operators("aten::mm.out", 1, "Expected weight to be a static param", MM, (line(15),)),
        Operators("aten::bmm.out", 1, "invalid dtype", BMM, (line(16),)),
        Operators("dim_order_ops::_to_dim_order_copy.out", 5, "invalid dtype", 0, (line(13), line(16))),
        Operators("aten::asinh.out", 1, TABLE, 0, (line(10),)),
        Operators("aten::erf.out", 1, TABLE, 0, (line(13),)),
        Operators("aten::mean.out", 1, "mean.dim only supports keepdim=True", 0, (line(9),)),
        Operators("aten::mul.out", 1, "invalid dtype", 0, (line(12),)),
        Operators("aten::select_copy.int_out", 1, TABLE, 0, (line(17),)),
        Operators("aten::sort.values", 1, TABLE, 0, (line(11),)),
        Operators(
            "aten::unsqueeze_copy.out", 1, "unsqueeze_copy only supported on the trailing dimension", 0, (line(16),)
        ),
    ),
}
"""Reasons by dtype, argument, table and known fault; most expensive first, then most frequent, then by name."""
PIECES = {
    "executorch.portable": {},
    "executorch.vulkan": {"VulkanBackend": 4},
    "executorch.xnnpack": {"XnnpackBackend": 4},
}
"""Delegates of the odd network."""
QUICK = ("executorch.portable", "executorch.xnnpack")
"""What ``make test`` lowers; the others are partitioned by the same code."""
BACKENDS = [pytest.param(name, marks=[] if name in QUICK else pytest.mark.slow) for name in LEFT]


@pytest.mark.slow
@pytest.mark.parametrize("name", BACKENDS)
def test_says_what_was_left_why_and_from_which_line(name: str, lowered: Lowered) -> None:
    assert lowered(name).placement.left == LEFT[name]


@pytest.mark.parametrize("name", [name for name in BACKENDS if name.values[0] in PIECES])
def test_pieces_are_counted_one_by_one(name: str, lowered: Lowered) -> None:
    assert lowered(name).placement.delegates == PIECES[name]


@pytest.mark.parametrize("name", BACKENDS)
def test_coverage_is_weighted_by_the_work(name: str, lowered: Lowered) -> None:
    left = sum(row.flops or 0 for row in LEFT[name])
    assert lowered(name).placement.flop_coverage == pytest.approx(1 - left / (CONV + FC + MM + BMM), abs=1e-12)


@pytest.mark.parametrize("name", BACKENDS)
def test_bytes_agree_with_the_file(name: str, lowered: Lowered) -> None:
    artifact = lowered(name)
    placement, size = artifact.placement, artifact.payload_path.stat().st_size
    constants, blobs, planned = placement.constant_bytes, placement.delegate_bytes, placement.planned_bytes
    assert constants is not None and blobs is not None and planned is not None
    assert 0 < size - constants - blobs < 10_000, "the rest is the program, some dozen instructions"
    if placement.delegates:
        assert constants < 100 and blobs >= PARAMETER_BYTES / 2, "float16 at least"
        assert planned < 2 * ACTIVATION_BYTES, "only what lies between delegates"
    else:
        assert PARAMETER_BYTES <= constants < PARAMETER_BYTES + 100 and blobs == 0
        assert 2 * ACTIVATION_BYTES <= planned < 4 * ACTIVATION_BYTES, "a map and its relu live together"


@pytest.mark.parametrize("name", BACKENDS)
def test_the_certificate_survives_its_manifest(name: str, lowered: Lowered) -> None:
    artifact = lowered(name)
    assert Artifact.read(artifact.manifest_path).placement == artifact.placement


class Call(nn.Module):
    def __init__(self, function: Callable[..., torch.Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *inputs: torch.Tensor) -> torch.Tensor:
        return self.function(*inputs)


IMAGE, FILTERS = (1, 4, 8, 8), (6, 4, 3, 3)
FLOPS = {
    "plain": (lambda x, w: torch.conv2d(x, w, stride=2, padding=1), (IMAGE, FILTERS), 2 * 6 * 4 * 4 * 4 * 3 * 3),
    "grouped": (
        lambda x, w: torch.conv2d(x, w, groups=2, dilation=2), (IMAGE, (6, 2, 3, 3)), 2 * 6 * 4 * 4 * 2 * 3 * 3
    ),
    "row": (torch.conv1d, ((2, 4, 8), (6, 4, 3)), 2 * 2 * 6 * 6 * 4 * 3),
    "volume": (torch.conv3d, ((1, 2, 4, 5, 6), (3, 2, 1, 2, 3)), 2 * 3 * 4 * 4 * 4 * 2 * 1 * 2 * 3),
    "transposed": (
        lambda x, w: torch.conv_transpose2d(x, w, stride=2), (IMAGE, (4, 6, 2, 2)), 2 * 4 * 8 * 8 * 6 * 2 * 2
    ),
    "mm": (torch.mm, ((3, 5), (5, 7)), 2 * 3 * 5 * 7),
    "addmm": (torch.addmm, ((7,), (3, 5), (5, 7)), 2 * 3 * 5 * 7),
    "bmm": (torch.bmm, ((2, 3, 5), (2, 5, 7)), 2 * 2 * 3 * 5 * 7),
    "baddbmm": (torch.baddbmm, ((7,), (2, 3, 5), (2, 5, 7)), 2 * 2 * 3 * 5 * 7),
    "attention": (
        nn.functional.scaled_dot_product_attention, ((1, 2, 8, 16),) * 3, 2 * (2 * 2 * 8 * 16 * 8)
    ),
    "nothing": (torch.sin, ((3, 4),), 0),
}  # fmt: skip


FEW = ("plain", "attention", "nothing")
"""Of the operators, which take seconds each; the others are slow."""


@pytest.mark.parametrize(
    "case", [case if case in FEW else pytest.param(case, marks=pytest.mark.slow) for case in FLOPS]
)
def test_the_work_of_an_operator_is_what_a_hand_counts(case: str, tmp_path: Path) -> None:
    """Vulkan takes no float64, so that all work is left; what the file tells and what torch counts are the same."""
    function, shapes, wanted = FLOPS[case]
    inputs = tuple(torch.randn(shape, dtype=torch.float64) for shape in shapes)
    program = xb.capture(Call(function), inputs)
    vulkan = resolve("vulkan")
    placement = vulkan.backend.lower(program, vulkan.options, tmp_path / "payload", [inputs]).placement
    assert sum(row.flops or 0 for row in placement.left) == count_flops(program, inputs) == wanted
    assert placement.weighed(wanted).flop_coverage == (0.0 if wanted else None)


def test_vulkans_patterns_are_traced_once(tmp_path: Path) -> None:
    inputs, vulkan = (torch.randn(2, 3),), resolve("vulkan")
    vulkan.backend.lower(xb.capture(Call(torch.sin), inputs), vulkan.options, tmp_path / "payload", [inputs])
    from executorch.backends.vulkan.patterns import fusable_patterns

    traced = [entry.get_graphs_fn for entry in fusable_patterns.values() if entry.get_graphs_fn is not None]
    assert traced and all(get() is get() for get in traced)


def test_dynamic_shapes_are_a_reason_and_have_no_coverage_by_work(user: ModuleType) -> None:
    batch = torch.export.Dim("batch", min=2, max=8)
    program = xb.capture(user.Batch().eval(), (torch.randn(4, 4),), ({0: batch},))
    placement = xb.lower(program, "xnnpack", name="batch").placement
    assert placement.flop_coverage is None
    assert 0 < placement.coverage < 1
    rows = {(row.name, row.lines): row.why for row in placement.left}
    assert "dynamic shape: " in str(rows["aten::slice_copy.Tensor_out", (line(28),)])
    assert rows["aten::cumsum.out", (line(29),)] == TABLE, "a fixed shape would not help it"
    assert rows["aten::asinh.out", (line(30),)] == TABLE, "what follows a view has its own line"
    assert rows["aten::native_layer_norm.out", (line(31),)] == TABLE, "the user's line, not torch's"
    shapes = [row for row in placement.left if row.name.startswith(("executorch_prim::", "aten::sym_size"))]
    assert len(shapes) >= 2 and {row.why for row in shapes} == {
        "arithmetic on dynamic shapes, which the runtime does itself"
    }
    assert all(row.why for row in placement.left)


@pytest.mark.slow
def test_branches_of_control_flow_are_told_apart(user: ModuleType) -> None:
    placement = xb.lower(xb.capture(user.Branches(), (torch.ones(3, 3),)), "vulkan", name="branches").placement
    rows = {row.name: row for row in placement.left if row.name != "aten::sum.IntList_out"}
    nested = "in a branch of control flow, where its partitioner does not look"
    assert {name: row.why for name, row in rows.items()} == {
        "aten::mm.out": nested, "aten::sin.out": nested, "aten::cumsum.out": nested,
        "aten::asinh.out": "no operator implementation",
    }  # fmt: skip
    assert rows["aten::mm.out"].count == 2 and rows["aten::mm.out"].flops == 2 * 2 * 27
    assert rows["aten::asinh.out"].lines == (line(21),)
    assert placement.flop_coverage is None, "which branch runs is not known"


@pytest.mark.parametrize(
    ("operator", "reason"),
    [("mul.out", None), ("mean.out", None), ("mul.Scalar_out", TABLE), ("sum.IntList_out", TABLE), ("erf.out", TABLE)],
)
def test_xnnpacks_table_tells_overloads_apart_where_the_file_does(operator: str, reason: str | None) -> None:
    backend = find_backend("executorch.xnnpack")
    assert isinstance(backend, ExecuTorchBackend)
    assert backend.unlogged(operator) == reason


class Vendor:
    def refuse(self, node: Any, reason: str) -> str:
        return f"vendor heard {reason}"


def test_listening_to_a_vendor_changes_nothing_and_ends() -> None:
    graph = torch.fx.Graph()
    graph.placeholder("x")
    node = graph.call_function(torch.ops.aten.sin.default, ())
    before = Vendor.refuse
    with watch_rejections(f"{__name__}:Vendor.refuse") as rejections:
        assert Vendor().refuse(node, "first") == "vendor heard first"
        Vendor().refuse(node, "second")
        Vendor().refuse(next(iter(graph.nodes)), "a placeholder is no operator")
    assert rejections == {("sin", ""): "first"}
    assert Vendor.refuse is before
    with pytest.raises(LowerError), watch_rejections(f"{__name__}:Vendor.refuse"):
        raise LowerError("no")
    assert Vendor.refuse is before


@pytest.mark.parametrize(
    ("reason", "shown"),
    [
        ("dtype not in {torch.int32, torch.bool}", "dtype not in {torch.bool, torch.int32}"),
        ("{b, a} but {d, c}", "{a, b} but {c, d}"),
        ("dim: s0 of type <class 'torch.SymInt'>", "dynamic shape: dim: s0 of type <class 'torch.SymInt'>"),
        ("plain", "plain"),
    ],
)
def test_a_vendors_reason_reads_the_same_each_time(reason: str, shown: str) -> None:
    assert _readable(reason) == shown


def trace(*frames: tuple[str, str]) -> str:
    return "\n".join(f'  File "{file}", line 7, in forward\n    {source}' for file, source in frames)


MINE, TORCH = ("/home/me/my model.py", "y = self.norm(x)"), ("/v/site-packages/torch/nn/functional.py", "return f(x)")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (trace(MINE), "my model.py:7 forward: y = self.norm(x)"),
        (trace(MINE, TORCH), "my model.py:7 forward: y = self.norm(x)"),
        (trace(MINE, ("/v/dist-packages/torch/x.py", "f")), "my model.py:7 forward: y = self.norm(x)"),
        (trace(MINE, ("torch/fx/passes/x.py", "f")), "my model.py:7 forward: y = self.norm(x)"),
        (trace(MINE, ("<eval_with_key>.6", "f")), "my model.py:7 forward: y = self.norm(x)"),
        (trace(MINE, ("/v/site-packages/timm/vit.py", "z")), "timm/vit.py:7 forward: z"),
        (trace(MINE, ("nets/torch.py", "z")), "nets/torch.py:7 forward: z"),
        (f"{trace(MINE)}\n        ~~~~~~^^^", "my model.py:7 forward: y = self.norm(x)"),
        ('File "/a/b.py", line 3, in f', "b.py:3 f"),
        (trace(TORCH), None),
        ("", None),
        (None, None),
        ("no trace at all", None),
    ],
)
def test_the_users_line_is_the_innermost_that_is_not_torchs(text: str | None, shown: str | None) -> None:
    assert user_line(text) == shown
