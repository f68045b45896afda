"""Running a captured program node by node: disturbed by rounding, in float64, and watched at its conditions."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from cross_backend.program.capture import ports_of
from cross_backend.program.lines import named_lines
from cross_backend.program.noise import Noise
from cross_backend.tensors import to_numpy
from cross_backend.verify.narrow import NARROW, RANGE

if TYPE_CHECKING:
    from torch.export import ExportedProgram

_VIEWS = {
    *("view", "reshape", "permute", "transpose", "t", "unsqueeze", "squeeze", "expand", "slice", "select", "split"),
    *("unbind", "chunk", "flatten", "unflatten", "clone", "contiguous", "detach", "alias", "cat", "stack", "narrow"),
    *("getitem", "to", "_to_copy", "lift_fresh_copy", "relu", "neg", "abs", "max_pool2d", "dropout", "embedding"),
}
"""Operators that round nothing."""
_JUMPS = {
    *(
        "gt",
        "ge",
        "lt",
        "le",
        "eq",
        "ne",
        "cond",
        "round",
        "floor",
        "ceil",
        "trunc",
        "sign",
        "floor_divide",
        "remainder",
    ),
    *("fmod", "argmax", "argmin", "topk", "sort", "bucketize", "searchsorted", "upsample_nearest2d", "heaviside"),
}
"""Operators of which a small change of a value may change the result much."""

NEARLY = 1e-2
"""Variance per mean square of numbers that are nearly the same."""
_NORMS = {"layer_norm", "native_layer_norm", "group_norm", "native_group_norm", "instance_norm"}


def run_disturbed(runs: Runs, leaves: Sequence[Any], seed: int, steps: int = 1) -> list[Any] | None:
    """Run with all weights, inputs and intermediate values changed by up to ``steps`` rounding errors.

    Results of two runs differ by what rounding does to this program (D. S. Parker, *Monte Carlo Arithmetic*, 1997).
    Denormal numbers are flushed to 0, as many kernels do. None where it cannot be run so.

    Args:
        runs: of the program.
        leaves: tensors of the input.
        seed: of what is drawn.
        steps: see above; those of ``-steps`` are the same errors with the other sign.
    """
    import torch
    from torch.utils._pytree import tree_map

    noise = Noise(seed, steps)

    class Disturbed(torch.fx.Interpreter):
        def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
            groups = _normalised(str(getattr(target, "__name__", target)).partition(".")[0], args)
            if groups:
                args = (noise.rounded_means(args[0], groups), *args[1:])
            return super().call_function(target, args, kwargs)

        def run_node(self, n: Any) -> Any:
            result = super().run_node(n)
            if n.op != "call_function" or name_of(n) in _VIEWS:
                return result
            return tree_map(noise.disturbed, result)

    def run(module: Any, given: Sequence[Any]) -> Any:
        return Disturbed(module, garbage_collect_values=True).run(*map(noise.disturbed, given))

    with _flushed():
        return _run(runs, run, noise.disturbed, [leaves])[0]


def run_narrow(runs: Runs, inputs: Sequence[Sequence[Any]], precision: str) -> list[list[Any] | None]:
    """Run with all weights, inputs and intermediate values of float32 rounded to a 16-bit type, as it exactly does.

    Values become infinite from a quarter of the type's range on: a target may hold larger ones beside those that the
    program names. None for inputs that it cannot be run so on.

    Args:
        runs: of the program; where it has state, one input only.
        inputs: tensors of each.
        precision: key of :data:`~cross_backend.verify.narrow.NARROW`.
    """
    import torch
    from torch.utils._pytree import tree_map

    kind = getattr(torch, NARROW[precision])
    room = torch.finfo(kind).max / RANGE

    def change(x: Any) -> Any:
        if not isinstance(x, torch.Tensor) or x.dtype != torch.float32:
            return x
        x = x.detach()
        made = x.to(kind).to(torch.float32)
        return torch.where(x.abs() > room, x * math.inf, made) if precision == "fp16" else made

    class Narrowed(torch.fx.Interpreter):
        def run_node(self, n: Any) -> Any:
            result = super().run_node(n)
            return result if n.op != "call_function" or name_of(n) in _VIEWS else tree_map(change, result)

    def run(module: Any, given: Sequence[Any]) -> Any:
        return Narrowed(module, garbage_collect_values=True).run(*map(change, given))

    return _run(runs, run, change, inputs)


def _normalised(name: str, args: Sequence[Any]) -> int:
    """Return into how many groups a normalisation divides its input; 0 for other operators."""
    if name not in _NORMS:
        return 0
    x: Any = args[0]
    if "layer" in name:
        return int(x.numel() // max(math.prod(args[1]), 1))
    if "group" in name:
        return int(x.shape[0] * (args[1] if name == "group_norm" else args[6]))
    return int(x.shape[0] * x.shape[1])


def run_wide(runs: Runs, leaves: Sequence[Any]) -> list[Any] | None:
    """Run in float64, and return outputs of the program's own types; None where it cannot be run so."""
    import torch

    def change(x: Any) -> Any:
        return x.double() if isinstance(x, torch.Tensor) and x.is_floating_point() else x

    runs.met_constants = False

    class Watched(torch.fx.Interpreter):
        def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
            groups = _normalised(str(getattr(target, "__name__", target)).partition(".")[0], args)
            if groups and args[0].numel():
                rows = args[0].reshape(groups, -1)
                nearly = rows.var(1, correction=0) <= NEARLY * rows.square().mean(1)
                runs.met_constants |= bool(nearly.any())
            return super().call_function(target, args, kwargs)

    return _run(runs, lambda module, given: Watched(module).run(*map(change, given)), change, [leaves])[0]


def _run(
    runs: Runs, run: Callable[[Any, Sequence[Any]], Any], change: Callable[[Any], Any], inputs: Sequence[Sequence[Any]]
) -> list[list[Any] | None]:
    """Change the weights once, and run on each input; None for those on which it fails."""
    import torch
    from torch.utils import _pytree

    found: list[list[Any] | None] = []
    with torch.no_grad():
        try:
            module = runs.module(change)
        except Exception:
            return [None] * len(inputs)
        for given in inputs:
            try:
                outputs = _pytree.tree_leaves(run(module, given))
            except Exception:
                found.append(None)
            else:
                rows = zip(outputs, runs.output_types, strict=True)
                found.append([to_numpy(y.to(dtype)) for y, dtype in rows])
    return found


class Runs:
    """A program as a module, made once, that begins each run in its initial state."""

    def __init__(self, program: ExportedProgram) -> None:
        import torch

        self._module = program.module(check_guards=False)
        self.jumps = any(name_of(node).rstrip("_") in _JUMPS for node in program.graph.nodes)
        """Whether a small change of a value may change an output much: by a comparison or a rounding."""
        self.output_types = [value.dtype for _, value in ports_of(program)[1]]
        """torch types of the program's outputs."""
        self.met_constants = False
        """Whether the last run in float64 normalised numbers that are nearly the same: then only rounding is left."""
        self._tensors: list[tuple[Any, str, Any, bool]] = []
        """Part of the module, name, initial tensor, and whether it is a parameter."""
        registered = set()
        for path, part in list(self._module.named_modules()):
            named = [(name, one, True) for name, one in part.named_parameters(recurse=False)]
            named += [(name, one, False) for name, one in part.named_buffers(recurse=False)]
            self._tensors += [(part, name, one.detach(), is_parameter) for name, one, is_parameter in named]
            registered |= {f"{path}.{name}".removeprefix(".") for name, _, _ in named}
        for target in {str(node.target) for node in self._module.graph.find_nodes(op="get_attr")} - registered:
            owner, _, name = target.rpartition(".")
            part = self._module.get_submodule(owner)
            if isinstance(getattr(part, name), torch.Tensor):
                self._tensors.append((part, name, getattr(part, name), False))

    def module(self, change: Callable[[Any], Any] = lambda x: x) -> Any:
        """Return the module in its initial state, its weights, state and constants changed, without guards of sizes."""
        import torch

        for part, name, initial, is_parameter in self._tensors:
            made = change(initial)
            if is_parameter:
                made = torch.nn.Parameter(made, requires_grad=False)
            elif made is initial:  # a run may write into it
                made = initial.clone()
            setattr(part, name, made)
        return self._module


@contextmanager
def _flushed() -> Iterator[None]:
    import torch

    is_possible = torch.set_flush_denormal(True)
    try:
        yield
    finally:
        if is_possible:
            torch.set_flush_denormal(False)


def name_of(node: Any) -> str:
    """Return a node's operator without its overload: ``clamp``."""
    return str(getattr(node.target, "__name__", node.target)).partition(".")[0]


class Conditions:
    """Where a program decides by values, and which sides inputs have reached so far."""

    def __init__(self, program: ExportedProgram) -> None:
        self.program, self.runs = program, Runs(program)
        self._sides: dict[str, tuple[str, set[str]]] = {}
        """Name of a node → what it decides, and the sides that were reached."""

    def run(self, leaves: Sequence[Any]) -> list[Any]:
        """Run the program and note the sides that its values reach; return its outputs, NumPy arrays."""
        import torch
        from torch.utils import _pytree

        note = self._note

        class Watched(torch.fx.Interpreter):
            def run_node(self, n: Any) -> Any:
                if n.op != "call_function":
                    return super().run_node(n)
                args, kwargs = self.fetch_args_kwargs_from_env(n)
                note(n, args, kwargs)
                return super().run_node(n)

        with torch.no_grad():
            outputs = Watched(self.runs.module()).run(*leaves)
        return [to_numpy(y) for y in _pytree.tree_leaves(outputs)]

    def missed(self) -> list[str]:
        """Return the sides that nothing reached: ``relu (model.py:12 forward): nothing below 0``."""
        told = named_lines(self.program)
        return [
            f"{told.get(name, name)}: nothing {side}"
            for name, (sides, reached) in self._sides.items()
            for side in sides.split("|")
            if side not in reached
        ]

    @property
    def count(self) -> int:
        """Sides of all conditions."""
        return sum(len(sides.split("|")) for sides, _ in self._sides.values())

    def _note(self, node: Any, args: Any, kwargs: Any) -> None:
        import torch

        name = name_of(node)
        first = args[0] if args else None
        if name == "cond":
            self._reach(node, "true|false", {"true" if bool(first) else "false"})
        elif name in {"gt", "ge", "lt", "le", "where", "masked_fill", "logical_not"}:
            mask = args[1] if name == "masked_fill" else first
            if name[:2] in {"gt", "ge", "lt", "le"} and isinstance(first, torch.Tensor):
                mask = getattr(torch, name)(first, args[1])
            if isinstance(mask, torch.Tensor) and mask.dtype == torch.bool and mask.numel():
                self._reach(node, "true|false", {"true"} & _when(mask.any()) | {"false"} & _when(~mask.all(), "false"))
        elif isinstance(first, torch.Tensor) and first.numel() and first.is_floating_point():
            bounds = bounds_of(name, args[1:], kwargs)
            if bounds:
                least, most = float(first.min()), float(first.max())
                sides = {f"{word} {bound:.6g}" for bound in bounds for word in ("below", "above")}
                reached = {f"below {one:.6g}" for one in bounds if least < one}
                reached |= {f"above {one:.6g}" for one in bounds if most > one}
                self._reach(node, "|".join(sorted(sides)), reached)

    def _reach(self, node: Any, sides: str, reached: set[str]) -> None:
        self._sides.setdefault(node.name, (sides, set()))[1].update(reached)


def _when(holds: Any, side: str = "true") -> set[str]:
    return {side} if bool(holds) else set()


_BOUNDS: dict[str, tuple[float, ...]] = {
    **dict.fromkeys(("relu", "leaky_relu", "prelu", "elu", "abs", "sign", "selu", "celu"), (0.0,)),
    **dict.fromkeys(("floor", "ceil", "trunc", "round", "remainder", "fmod", "floor_divide"), (0.0,)),
    **dict.fromkeys(("hardswish", "hardsigmoid"), (-3.0, 3.0)),
    "relu6": (0.0, 6.0),
    "hardtanh": (-1.0, 1.0),
    "softplus": (20.0,),
    "hardshrink": (-0.5, 0.5),
}
"""Operator → values of its first argument at which it changes what it does."""


def bounds_of(name: str, arguments: Sequence[Any], keywords: Mapping[str, Any]) -> tuple[float, ...]:
    """Return the values of an operator's first argument at which it changes what it does."""
    given = [*arguments, *keywords.values()]
    numbers = [float(one) for one in given if isinstance(one, int | float) and not isinstance(one, bool)]
    name = name.removesuffix("_")
    if name in {"clamp", "clamp_min", "clamp_max", "hardtanh"}:
        return tuple(one for one in numbers if math.isfinite(one)) or _BOUNDS.get(name, ())
    if name in {"gt", "ge", "lt", "le", "eq", "ne", "maximum", "minimum", "threshold"}:
        return tuple(numbers[:1])
    return _BOUNDS.get(name, ())
