"""Judge: cases become one program, which is compiled and run; each overload gets a verdict for each case."""

from __future__ import annotations

import operator
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any
from unittest.mock import patch

import torch
from torch.fx import Graph, Node
from torch.utils import _pytree as pytree

import atalla
from atalla import compiler
from atalla.errors import CompileError
from atalla.passes.normalize import normalize
from tests.atalla.evidence.cases import Case


@dataclass(frozen=True)
class Judged:
    """What became of a case."""

    case: Case
    verdict: str
    """native, decomposed, fallback, refused, wrong or untested; of the whole case."""
    overloads: dict[str, str] = field(default_factory=dict)
    """ATen overload → native, decomposed, fallback or wrong."""
    reason: str = ""


class Batch(torch.nn.Module):
    """Many cases as one module: its inputs are their tensors, one behind the other."""

    def __init__(self, cases: Sequence[Case]) -> None:
        super().__init__()
        self.cases = cases
        for i, case in enumerate(cases):
            for j, tensor in enumerate(case.tensors[len(case.tensors) - case.fixed :]):
                own = torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype).copy_(tensor)
                self.register_buffer(f"fixed_{i}_{j}", own)

    def forward(self, *given: torch.Tensor) -> tuple[Any, ...]:
        made: list[Any] = []
        left = list(given)
        for i, case in enumerate(self.cases):
            free = len(case.tensors) - case.fixed
            tensors = [left.pop(0) for _ in range(free)]
            tensors += [getattr(self, f"fixed_{i}_{j}") for j in range(case.fixed)]
            made += pytree.tree_leaves(case.function(*tensors))
        return tuple(made)

    def inputs(self) -> tuple[torch.Tensor, ...]:
        return tuple(one for case in self.cases for one in case.tensors[: len(case.tensors) - case.fixed])


def judge(cases: Sequence[Case]) -> list[Judged]:
    """Give the verdicts of cases; where a batch of them fails, of each half by itself."""
    if not cases:
        return []
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return _together(cases)
    except Exception as error:
        if len(cases) > 1:
            half = len(cases) // 2
            return judge(cases[:half]) + judge(cases[half:])
        return [_failed(cases[0], error)]


class _FailureError(Exception):
    """Something that Atalla must not do; the cause tells."""


def _failed(case: Case, error: Exception) -> Judged:
    text = (str(error.__cause__ or error).strip() or repr(error)).splitlines()[0][:200]
    if isinstance(error, _FailureError):
        found, cause = str(error), error.__cause__
        verdict = "refused" if isinstance(cause, CompileError) else "wrong"
        overloads = dict.fromkeys(found.split(), verdict) if found else {}
        return Judged(case, verdict, overloads, f"{type(cause).__name__}: {text}")
    return Judged(case, "untested", {}, f"{type(error).__name__}: {text}")  # torch.export cannot


def _together(cases: Sequence[Case]) -> list[Judged]:
    module, counts = Batch(cases), [len(case.wanted) for case in cases]
    inputs = module.inputs()
    program = torch.export.export(module, inputs, strict=False)
    exported = _reached(program.graph, counts)
    try:
        normal = normalize(program)
    except Exception as error:  # torch's decompositions: nothing of ours has run
        raise ValueError(f"run_decompositions: {error}") from error
    try:
        with patch.object(compiler, "normalize", lambda _: normal):
            made = atalla.compile(program, exact=True)
        results = [atalla.load(made.data, isa=isa, trust=True).run(inputs) for isa in (None, "reference")]
    except Exception as error:
        names = {name for nodes in exported for name in map(target, nodes)}
        raise _FailureError(" ".join(sorted(names))) from error
    hosted = {one.node: one.reason for one in made.fallbacks}
    found: list[Judged] = []
    start, taken_apart = 0, None
    for case, before, after in zip(cases, exported, _reached(normal.graph, counts), strict=True):
        end = start + len(case.wanted)
        told = next((text for one in results if (text := differs(one[start:end], case.wanted))), "")
        if told:  # torch's own decomposition may round otherwise than torch's operator
            taken_apart = taken_apart or pytree.tree_leaves(normal.module()(*inputs))
            told = next((text for one in results if (text := differs(one[start:end], taken_apart[start:end]))), "")
        if told and (exact := in_float64(case)):  # eager may be the one that is farther from what is right
            told = next((text for one in results if (text := differs(one[start:end], exact))), "")
        found.append(_classified(case, before, after, hosted, told))
        start = end
    return found


def in_float64(case: Case) -> list[Any]:
    """Give what a case of float32 gives if it is computed in float64, as float32; nothing where it cannot be."""
    if any(one.dtype is not torch.float32 for one in case.tensors):
        return []
    try:
        with torch.no_grad():
            leaves = pytree.tree_leaves(case.function(*(one.double() for one in case.tensors)))
    except Exception:
        return []
    return [one.float() if isinstance(one, torch.Tensor) and one.is_floating_point() else one for one in leaves]


def target(node: Node) -> str:
    """Give the name of a node's overload."""
    return str(node.target)


def _reached(graph: Graph, counts: Sequence[int]) -> list[list[Node]]:
    """Give, for each case, the operators that its outputs depend on."""
    (output,) = (node for node in graph.nodes if node.op == "output")
    values, found, start = output.args[0], [], 0
    assert len(values) == sum(counts), "no case changes its inputs"
    for count in counts:
        seen: dict[Node, None] = {}
        queue = [one for one in values[start : start + count] if isinstance(one, Node)]
        while queue:
            node = queue.pop()
            if node not in seen:
                seen[node] = None
                queue += node.all_input_nodes
        start += count
        found.append([node for node in seen if node.op == "call_function" and node.target is not operator.getitem])
    return found


def differs(found: Sequence[Any], wanted: Sequence[Any]) -> str:
    """Say how results differ from what eager gave; nothing where they do not."""
    for one, other in zip(found, wanted, strict=True):
        if not isinstance(other, torch.Tensor):
            if one != other:
                return f"{one} instead of {other}"
            continue
        try:
            torch.testing.assert_close(one, other, equal_nan=True, check_stride=False)
        except AssertionError as error:
            return " ".join(str(error).split())[:200]
    return ""


def _classified(case: Case, before: Sequence[Node], after: Sequence[Node], hosted: dict[str, str], told: str) -> Judged:
    left = {target(node) for node in after}
    names = {target(node) for node in before} | left
    if told:
        return Judged(case, "wrong", dict.fromkeys(names, "wrong"), told)
    on_host = {target(node) for node in after if node.name in hosted}
    kinds = {}
    for name in names:
        if name in left:
            kinds[name] = "fallback" if name in on_host else "native"
        else:
            kinds[name] = "fallback" if on_host else "decomposed"
    verdict = next((one for one in ("fallback", "decomposed") if one in kinds.values()), "native")
    reason = next((hosted[node.name] for node in after if node.name in hosted), "")
    return Judged(case, verdict, kinds, reason)
