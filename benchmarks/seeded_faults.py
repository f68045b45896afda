"""Seeded faults: wrong programs, lowered for real, whose outputs are judged by the sample and probes of the right one.

python benchmarks/seeded_faults.py [--targets portable,xnnpack,cpu,openvino]

Each network's captured program is changed in one place, as in faults of vendors' trackers: a mirrored kernel, a dropped
ReLU, another bound of a clamp. A change that no input of a thousand shows is none, and is left out. The others must be
refused; a row says how many were, of how many.
"""

from __future__ import annotations

import argparse
import contextlib
import copy
import random
import sys
import tempfile
import time
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

from cross_backend.bench.open_artifact import OpenArtifact, open_session, resolve_with_threads
from cross_backend.bench.verification import verified
from cross_backend.cache import Cache
from cross_backend.errors import CrossBackendError, LowerError, UnsupportedError
from cross_backend.lowering.lower import lower
from cross_backend.program.capture import capture
from cross_backend.program.captured import Captured
from cross_backend.program.flattening import flatten, with_graph
from cross_backend.program.writing import write_program
from cross_backend.tensors import load_tensors

TARGETS = ("portable", "xnnpack", "cpu", "openvino")


class Net(nn.Module):
    """A network given as a function of its layers and inputs."""

    def __init__(self, run: Callable[..., Any], **layers: nn.Module) -> None:
        super().__init__()
        self.run = run
        for name, layer in layers.items():
            self.add_module(name, layer)

    def forward(self, *inputs: torch.Tensor) -> Any:  # noqa: D102
        return self.run(self, *inputs)


def _attention(m: Any, x: torch.Tensor) -> torch.Tensor:
    q, k, v = (y.reshape(1, 6, 2, 8).transpose(1, 2) for y in m.qkv(x).chunk(3, -1))
    scores = (q @ k.transpose(-1, -2)) * 8**-0.5
    seen = torch.ones(6, 6, dtype=torch.bool).tril()
    return m.out((scores.masked_fill(~seen, -1e9).softmax(-1) @ v).transpose(1, 2).reshape(1, 6, 16))


picture, line, ones = torch.rand(1, 3, 12, 12), torch.randn(2, 16), torch.ones(1, 3, 12, 12)
NETWORKS: dict[str, Callable[[], tuple[nn.Module, tuple[torch.Tensor, ...]]]] = {
    "mlp": lambda: (nn.Sequential(nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 4)), (line,)),
    "mlp, constant": lambda: (nn.Sequential(nn.Linear(16, 16), nn.GELU(), nn.Linear(16, 4)), (torch.ones(2, 16),)),
    "cnn, constant": lambda: (nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU6(), nn.Conv2d(8, 4, 3)), (ones,)),
    "cnn, picture": lambda: (
        nn.Sequential(
            nn.ReLU(), nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.Hardswish(), nn.MaxPool2d(3, 2, 1)
        ),
        (picture,),
    ),
    "pools": lambda: (
        Net(lambda m, x: (F.avg_pool2d(x, 3, 2, 1), F.max_pool2d(x, 3, 2, 1), F.adaptive_avg_pool2d(x, 3))),
        (picture,),
    ),
    "resizing": lambda: (Net(lambda m, x: F.interpolate(x, scale_factor=2.0, mode="bilinear")), (ones,)),
    "norms": lambda: (nn.Sequential(nn.LayerNorm(16), nn.Linear(16, 16), nn.LayerNorm(16)), (line,)),
    "attention": lambda: (Net(_attention, qkv=nn.Linear(16, 48), out=nn.Linear(16, 16)), (torch.randn(1, 6, 16),)),
    "embedding": lambda: (
        Net(lambda m, t: m.head(m.table(t)), table=nn.Embedding(40, 8), head=nn.Linear(8, 4)),
        (torch.tensor([[1, 2, 3, 4, 5]]),),
    ),
    "clamps": lambda: (Net(lambda m, x: (x.clamp(-6, 6) * 2, F.hardtanh(x, -2, 2))), (line,)),
    "rounding": lambda: (Net(lambda m, x: (torch.round(x * 4), torch.floor(x * 2), torch.trunc(x * 2))), (line,)),
    "masks": lambda: (
        Net(lambda m, x, k: torch.where(x > 0.5, x * 2, x - 1).masked_fill(~k, 0.25)),
        (torch.rand(2, 16), torch.ones(2, 16, dtype=torch.bool)),
    ),
    "shapes": lambda: (
        Net(
            lambda m, x: torch.cat([x[:, 2:], x.flip(1)[:, :3], x.reshape(2, 4, 4).permute(0, 2, 1).reshape(2, 16)], 1)
        ),
        (torch.ones(2, 16),),
    ),
    "sums": lambda: (Net(lambda m, x: (x.softmax(1), x.cumsum(1), x.mean(1), x.amax(1), x - x.sum(1, True))), (line,)),
    "padding": lambda: (
        Net(lambda m, x: m.conv(F.pad(x, (1, 2, 1, 2), value=0.0)), conv=nn.Conv2d(3, 4, 3)),
        (picture,),
    ),
    "branches": lambda: (
        Net(lambda m, x: torch.cond(x.sum() > 30, lambda x: x * 2, lambda x: x + 1, (x,))),
        (torch.rand(1, 8),),
    ),
    "depthwise": lambda: (
        nn.Sequential(nn.Conv2d(3, 6, 3, groups=3, stride=2), nn.LeakyReLU(0.1), nn.Conv2d(6, 4, 1), nn.Sigmoid()),
        (picture,),
    ),
}

Fault = Callable[[Any, Any, dict[str, torch.Tensor]], bool]
"""Changes one node of a graph, or a weight, in place; says whether it applied."""
FAULTS: dict[str, Fault] = {}


def _is(node: Any, *names: str) -> bool:
    found = str(getattr(node.target, "__name__", node.target)).partition(".")[0]
    return node.op == "call_function" and found.removesuffix("_") in names


def _state(node: Any, place: int, state: dict[str, torch.Tensor], signature: Any) -> torch.Tensor | None:
    if len(node.args) <= place or getattr(node.args[place], "op", None) != "placeholder":
        return None
    name = node.args[place].name
    return state.get(signature.inputs_to_parameters.get(name, signature.inputs_to_buffers.get(name, "")))


def _on_weight(names: tuple[str, ...], place: int, change: Callable[[torch.Tensor], torch.Tensor | None]) -> Fault:
    def apply(node: Any, signature: Any, state: dict[str, torch.Tensor]) -> bool:
        weight = _state(node, place, state, signature) if _is(node, *names) else None
        made = None if weight is None else change(weight.detach())
        if weight is None or made is None:
            return False
        with torch.no_grad():
            weight.copy_(made)
        return True

    return apply


def _argument(names: tuple[str, ...], change: Callable[[list[Any]], list[Any] | None]) -> Fault:
    def apply(node: Any, signature: Any, state: dict[str, torch.Tensor]) -> bool:  # noqa: ARG001
        made = change(list(node.args)) if _is(node, *names) else None
        if made is None or tuple(made) == tuple(node.args):
            return False
        node.args = tuple(made)
        return True

    return apply


def _set(place: int, change: Callable[[Any], Any]) -> Callable[[list[Any]], list[Any] | None]:
    def apply(args: list[Any]) -> list[Any] | None:
        if len(args) <= place or hasattr(args[place], "op"):
            return None
        args[place] = change(args[place])
        return args

    return apply


def _becomes(names: tuple[str, ...], target: Any) -> Fault:
    def apply(node: Any, signature: Any, state: dict[str, torch.Tensor]) -> bool:  # noqa: ARG001
        if not _is(node, *names):
            return False
        node.target = target
        return True

    return apply


def _dropped(names: tuple[str, ...]) -> Fault:
    def apply(node: Any, signature: Any, state: dict[str, torch.Tensor]) -> bool:  # noqa: ARG001
        if not _is(node, *names) or node.args[0].meta["val"].shape != node.meta["val"].shape:
            return False
        node.target, node.args, node.kwargs = ATEN.clone.default, node.args[:1], {}
        return True

    return apply


def _one_channel(weight: torch.Tensor) -> torch.Tensor:
    made = weight.clone()
    made[-1] = 0
    return made


def _square(weight: torch.Tensor) -> torch.Tensor | None:
    return weight.T.clone() if weight.dim() == 2 and weight.shape[0] == weight.shape[1] else None


ATEN = torch.ops.aten
CONV, LINEAR, POOL = ("conv2d",), ("linear",), ("max_pool2d", "avg_pool2d")
FAULTS |= {
    "mirrored kernel": _on_weight(CONV, 1, lambda w: w.flip(-1, -2)),
    "input channels swapped": _on_weight(CONV, 1, lambda w: w.flip(1) if w.shape[1] > 1 else None),
    "a channel lost": _on_weight((*CONV, *LINEAR), 1, _one_channel),
    "transposed weights": _on_weight(LINEAR, 1, _square),
    "weights off by 1 %": _on_weight((*CONV, *LINEAR), 1, lambda w: w * 1.01),
    "bias lost": _on_weight((*CONV, *LINEAR), 2, torch.zeros_like),
    "last row of a table": _on_weight(("embedding",), 0, lambda w: torch.cat([w[:-1], -w[-1:]])),
    "first row of a table": _on_weight(("embedding",), 0, lambda w: torch.cat([-w[:1], w[1:]])),
    "activation lost": _dropped(("relu", "leaky_relu", "relu6", "hardtanh", "gelu", "hardswish", "sigmoid", "clamp")),
    "gelu by tanh": lambda n, _s, _t: _is(n, "gelu") and bool(n.update_kwarg("approximate", "tanh") or True),
    "another bound": _argument(("clamp", "hardtanh"), _set(2, lambda b: b - 1)),
    "another lower bound": _argument(("clamp", "hardtanh"), _set(1, lambda b: b + 0.5)),
    "hardswish as silu": _becomes(("hardswish",), ATEN.silu.default),
    "halves go up": _becomes(("round",), ATEN.ceil.default),
    "floor as trunc": _becomes(("floor",), ATEN.trunc.default),
    "trunc as floor": _becomes(("trunc",), ATEN.floor.default),
    "comparison turned": _becomes(("gt",), ATEN.lt.Scalar),
    "comparison with equality": _becomes(("gt",), ATEN.ge.Scalar),
    "mask lost": _dropped(("masked_fill",)),
    "mask turned": _dropped(("bitwise_not", "logical_not")),
    "branches exchanged": _argument(("where",), lambda a: [a[0], a[2], a[1]]),
    "branches of cond exchanged": _argument(("cond",), lambda a: [a[0], a[2], a[1], *a[3:]]),
    "softmax of another axis": _argument(("softmax",), _set(1, lambda d: d - 1)),
    "epsilon": _argument(("layer_norm",), _set(4, lambda e: e * 1000)) ,
    "parts in another order": _argument(("cat",), lambda a: [list(reversed(a[0])), *a[1:]]),
    "slice off by one": _argument(("slice",), _set(2, lambda s: s + 1 if s else s)),
    "flip lost": _dropped(("flip",)),
    "permutation lost": _dropped(("permute", "transpose")),
    "operands exchanged": _argument(("sub",), lambda a: [a[1], a[0]] if hasattr(a[1], "op") else None),
    "product as sum": _becomes(("mul",), ATEN.add.Tensor),
    "padding with ones": _argument(("pad",), lambda a: [a[0], a[1], "constant", 1.0]),
    "padding counts": lambda n, _s, _t: _is(n, "avg_pool2d") and len(n.args) == 4 and bool(
        setattr(n, "args", (*n.args, False, False)) or True
    ),
    "maximum as mean": _becomes(("max_pool2d",), ATEN.avg_pool2d.default),
    "corners aligned": lambda n, _s, _t: _is(n, "upsample_bilinear2d") and bool(
        setattr(n, "args", (n.args[0], n.args[1], True, *n.args[3:])) or True
    ),
    "maximum as minimum": _becomes(("amax",), ATEN.amin.default),
    "state of a sum lost": _dropped(("cumsum",)),
}  # fmt: skip


def copied(program: Any) -> Any:
    """Return a program with a graph and weights of its own; torch's deep copy renames an input called ``input``."""
    made = with_graph(program, copy.deepcopy(program.graph_module))
    made._state_dict = copy.deepcopy(program.state_dict)
    return made


def mutants(program: Any, kind: str, rng: random.Random) -> Iterator[Any]:
    """Yield one program with a fault of a kind, at a random place where it applies."""
    places = list(range(len(program.graph.nodes)))
    rng.shuffle(places)
    for place in places:
        made = copied(program)
        node = list(made.graph.nodes)[place]
        if node.op != "call_function":
            continue
        try:
            if FAULTS[kind](node, made.graph_signature, made.state_dict):
                made.graph_module.recompile()
                yield made
                return
        except (TypeError, IndexError, RuntimeError):
            continue


def differs(program: Any, mutant: Any, inputs: tuple[torch.Tensor, ...]) -> bool:
    """Whether one of many inputs shows the fault by more than rounding."""
    right, wrong = (one.module(check_guards=False) for one in (program, mutant))
    for turn in range(200):
        given = tuple(_random(x, turn) for x in inputs)
        try:
            a, b = (torch.utils._pytree.tree_leaves(f(*given)) for f in (right, wrong))
        except Exception:
            return False
        for x, y in zip(a, b, strict=True):
            if x.shape != y.shape or not torch.allclose(
                x.double(), y.double(), 1e-3, 1e-4 * float(x.double().abs().max() + 1e-9)
            ):
                return True
    return False


def _random(x: torch.Tensor, turn: int) -> torch.Tensor:
    if x.dtype == torch.bool:
        return torch.rand(x.shape) < 0.5
    if not x.is_floating_point():
        return torch.randint(0, 40, x.shape)
    if turn % 4 == 3:  # ties and thresholds
        return torch.randint(-40, 41, x.shape) / 8
    return torch.randn(x.shape) * 4.0 ** (turn % 4 - 1)


def judge(captured: Captured, mutant: Captured, target: str, cache: Cache) -> str:
    """Lower the mutant; return the outcome of its outputs under the right program's sample."""
    resolved, options = resolve_with_threads(target, 1)
    artifact = lower(mutant, resolved, cache).artifact
    one = OpenArtifact(lambda: open_session(artifact, resolved, options), load_tensors(captured.sample_path))
    try:
        return str(verified(one, "fp32").comparison.outcome)
    except CrossBackendError:
        return "RUN_FAIL"
    finally:
        one.close()


class Tally:
    """What was refused, by kind of fault and target."""

    def __init__(self) -> None:
        self.rows: dict[str, dict[str, list[int]]] = defaultdict(lambda: defaultdict(lambda: [0, 0]))
        self.passed: list[str] = []
        self.refused: list[str] = []

    def add(self, kind: str, network: str, target: str, outcome: str) -> None:
        """Count one fault."""
        self.rows[kind][target][1] += 1
        self.rows[kind][target][0] += outcome != "OK"
        if outcome == "OK":
            self.passed.append(f"{kind} in {network!r} on {target}")

    def show(self, targets: list[str], seconds: float) -> None:
        """Print the table."""
        total = sum(count[1] for row in self.rows.values() for count in row.values())
        print(f"{'fault':28}" + "".join(f"{target:>14}" for target in targets))
        for kind, row in self.rows.items():
            print(f"{kind:28}" + "".join(f"{f'{row[t][0]} of {row[t][1]}' if row[t][1] else '–':>14}" for t in targets))
        print(f"\n{total} faults in {len(NETWORKS)} networks on {len(targets)} targets, {seconds:.0f} s")
        print(f"faults that passed: {len(self.passed)}", *self.passed, sep="\n  ")
        print(f"right programs refused: {len(self.refused)}", *self.refused, sep="\n  ")


def main() -> int:
    """Seed faults, and print which were refused."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--targets", default=",".join(TARGETS))
    targets = parser.parse_args().targets.split(",")
    warnings.simplefilter("ignore")
    tally, started = Tally(), time.time()
    with tempfile.TemporaryDirectory() as scratch:
        for number, (name, make) in enumerate(NETWORKS.items()):
            torch.manual_seed(number)
            module, inputs = make()
            program = flatten(capture(module, inputs))
            seed(program, inputs, name, number, targets, Path(scratch), tally)
    tally.show(targets, time.time() - started)
    return bool(tally.passed or tally.refused)


def seed(program: Any, inputs: Any, name: str, number: int, targets: list[str], scratch: Path, tally: Tally) -> None:
    """Judge a right program, and each fault of each kind that can be seeded into it."""
    cache = Cache(scratch / "cache")
    captured = stored(program, f"net{number}", scratch)
    for target in targets:
        with contextlib.suppress(LowerError, UnsupportedError):
            if (outcome := judge(captured, captured, target, cache)) != "OK":
                tally.refused.append(f"{name} on {target}: {outcome}")
    for at, kind in enumerate(FAULTS):
        for mutant in mutants(program, kind, random.Random(number)):
            if not differs(program, mutant, inputs):
                continue
            try:
                wrong = stored(mutant, f"net{number}_{at}", scratch)
            except Exception:  # what torch itself refuses is no program
                continue
            for target in targets:
                with contextlib.suppress(CrossBackendError):  # what cannot be lowered is not shipped
                    tally.add(kind, name, target, judge(captured, wrong, target, cache))


def stored(program: Any, name: str, scratch: Path) -> Captured:
    """Capture a program into a folder."""
    folder = scratch / name
    folder.mkdir()
    return write_program(program, name, folder)


if __name__ == "__main__":
    sys.exit(main())
