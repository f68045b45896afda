"""Compare: one program, exported, compiled, and run by every executor; the first thing that is wrong is the finding."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from atalla.errors import CompileError
from atalla.fuzz import values
from atalla.fuzz.executors import REFERENCE, Executor
from atalla.fuzz.graph import Graph, inputs_source, module_source
from atalla.fuzz.rounding import same_bits

if TYPE_CHECKING:
    import torch

RUNS = 2
"""What the first run leaves in memory changes nothing."""


@dataclass(frozen=True)
class Finding:
    """Something that must not be."""

    kind: str
    """``differs`` from eager, ``bits`` other than those it shall have, ``error``, ``crash`` or ``hang``."""
    executor: str
    """Its name; ``compile`` before any has run."""
    detail: str
    like: str = ""
    """What its outputs shall be like: ``eager``, an executor's name, or nothing where it is no matter of outputs."""
    tolerance: float = 0.0

    def resembles(self, other: Finding | None) -> bool:
        """Whether another is of the same kind, at the same place; of errors, whether they say the same at first."""
        if other is None or (self.kind, self.executor) != (other.kind, other.executor):
            return False
        return self.kind != "error" or self.detail.split(":")[0] == other.detail.split(":")[0]


@dataclass(frozen=True)
class Outcome:
    """What became of a program."""

    status: str
    """``same``; ``refused`` by the compiler with a clean error; ``skipped``: torch cannot; ``finding``."""
    detail: str = ""
    finding: Finding | None = None
    operators: tuple[str, ...] = ()
    """Of torch, in the program and in what normalising leaves of it."""
    fallbacks: int = 0
    """Nodes that run on the host."""
    instructions: tuple[str, ...] = field(default=())
    """Kinds of instructions."""

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON holds it."""
        return asdict(self)


def examine(graph: Graph, executors: Sequence[Executor]) -> Outcome:
    """Return what becomes of a program."""
    import torch

    from atalla.compiler import compile_normal
    from atalla.passes.normalize import normalize

    used = {node.operator for node in graph.nodes if node.operator}
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        try:
            single, exact, tolerances = values.expected(graph)
            module, inputs = built(graph)
            program = normalize(torch.export.export(module, inputs))
        except Exception as error:  # nothing of ours has run
            return Outcome("skipped", _line(error), operators=tuple(sorted(used)))
        used |= {str(node.target) for node in program.graph.nodes if node.op == "call_function"}
        operators = tuple(sorted(name for name in used if name.startswith(("aten.", "quantized_decomposed."))))
        try:
            options = {word.partition("=")[0]: True for word in graph.options.split(", ") if word}
            made = compile_normal(program, **options)  # type: ignore[arg-type]  # both are flags
        except CompileError as error:
            return Outcome("refused", _line(error), operators=operators)
        except Exception as error:
            return Outcome("finding", finding=Finding("error", "compile", _line(error)), operators=operators)
        kinds = tuple(sorted({one.op.name for one in made.program.instructions}))
        found = _run_all(made.data, inputs, executors, _Wanted(single, exact, tolerances, same_bits(graph, kinds)))
    status = "finding" if found else "same"
    return Outcome(status, "", found, operators, len(made.fallbacks), kinds)


def built(graph: Graph) -> tuple[torch.nn.Module, tuple[torch.Tensor, ...]]:
    """Return a program's module and its inputs."""
    names = values.vocabulary()
    exec(module_source(graph), names)  # noqa: S102  the text is the generator's own
    return names["Model"]().eval(), values.evaluate(inputs_source(graph), {})


@dataclass(frozen=True)
class _Wanted:
    """What outputs shall be."""

    single: list[torch.Tensor]
    exact: list[torch.Tensor]
    tolerances: list[float]
    same_bits: bool


def _run_all(
    data: bytes, inputs: tuple[torch.Tensor, ...], executors: Sequence[Executor], wanted: _Wanted
) -> Finding | None:
    """Return the first finding of any executor."""
    results: dict[str, list[torch.Tensor]] = {}
    for one in executors:
        before = [value.clone() for value in inputs]
        try:
            for number in range(RUNS):
                found = [value.clone() for value in one.run(data, inputs)]
                if number and not all(map(_same, found, results[one.name])):
                    return Finding("bits", one.name, "another run returns other bits", one.name)
                results[one.name] = found
        except Exception as error:
            return Finding("error", one.name, _line(error))
        fault = _fault(found, wanted)
        if fault:
            return Finding("differs", one.name, fault[0], "eager", fault[1])
        like = one.like or (REFERENCE if wanted.same_bits else "")
        for number, value in enumerate(found):
            if like in results and not _same(value, results[like][number]):
                return Finding("bits", one.name, f"output {number} has other bits than that of {like}", like)
        if not all(map(_same, before, inputs)):
            return Finding("bits", one.name, "it wrote into its inputs")
    return None


def _fault(found: Sequence[torch.Tensor], wanted: _Wanted) -> tuple[str, float] | None:
    """Return how outputs are not what they shall be, with the tolerance; None where they are."""
    if len(found) != len(wanted.exact):
        return f"{len(found)} outputs instead of {len(wanted.exact)}", 0.0
    for number, (one, eager) in enumerate(zip(found, wanted.single, strict=True)):
        if one.dtype is not eager.dtype or one.shape != eager.shape:
            kinds = [f"{str(value.dtype)[6:]}{list(value.shape)}" for value in (one, eager)]
            return f"output {number} is {kinds[0]} instead of {kinds[1]}", 0.0
    apart = values.distances(found, wanted.exact)
    for number, (distance, tolerance) in enumerate(zip(apart, wanted.tolerances, strict=True)):
        if distance > tolerance:
            return f"output {number} is {distance:.3g} from eager, {tolerance:.3g} is allowed", tolerance
    return None


def _same(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Whether two tensors are equal; NaN is NaN."""
    import torch

    return one.shape == other.shape and bool(torch.allclose(one, other, rtol=0, atol=0, equal_nan=True))


def _line(error: BaseException) -> str:
    """Return what an error says, in one line."""
    text = str(error).strip().partition("\n")[0] or type(error).__name__
    return f"{type(error).__name__}: {text}"[:300]
