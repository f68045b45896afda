"""Delegate: the ahead-of-time side of ExecuTorch's AtallaBackend: which nodes it takes, and the blob that they become.

>>> from executorch.exir import to_edge_transform_and_lower
>>> program = to_edge_transform_and_lower(torch.export.export(model, (x,)), partitioner=[AtallaPartitioner()])
>>> program.to_executorch().write_to_file(file)

``build_delegate`` has the other side, which runs the blob.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, final

from executorch.exir.backend.backend_details import (  # noqa: TID253  the classes below derive from these
    BackendDetails,
    PreprocessResult,
)
from executorch.exir.backend.compile_spec_schema import CompileSpec  # noqa: TID253
from executorch.exir.backend.partitioner import DelegationSpec, Partitioner, PartitionResult  # noqa: TID253

from atalla.compiler import Compiled, compile_normal
from atalla.errors import CompileError
from atalla.executorch.edge import Trial, to_aten, try_to_lower, unwrapped
from atalla.passes.normalize import COMPOSITES, normalize
from atalla.passes.rules import all_rules

if TYPE_CHECKING:
    import torch
    from torch.fx import Node

logger = logging.getLogger(__name__)
EXACT, BF16, THREADS = "exact", "bf16", "threads"
"""Keys of compile specs: a decimal number each."""
_IDLE = "what is delegated with it computes nothing"


@final
class AtallaBackend(BackendDetails):  # type: ignore[misc]  # executorch has no types
    """Compiles a partition; ExecuTorch finds this class by its name, which the runtime registers, too."""

    @classmethod
    def copy_exported_program_for_preprocess(
        cls,
        edge_program: torch.export.ExportedProgram,
        compile_specs: list[CompileSpec],  # noqa: ARG003
    ) -> torch.export.ExportedProgram:
        """Return the program itself: :meth:`preprocess` changes nothing, and a copy holds all weights again."""
        return edge_program

    @staticmethod
    def preprocess(edge_program: torch.export.ExportedProgram, compile_specs: list[CompileSpec]) -> PreprocessResult:
        """Return the blob of a partition.

        Raises:
            CompileError: it holds something that no instruction does, or a compile spec that is not known.
        """
        options = {spec.key: int(bytes(spec.value)) for spec in compile_specs}
        if unknown := set(options) - {EXACT, BF16, THREADS}:
            raise CompileError(f"unknown compile specs: {', '.join(sorted(unknown))}")
        compiled = compile_normal(to_aten(edge_program), exact=bool(options.get(EXACT)), bf16=bool(options.get(BF16)))
        if compiled.fallbacks:
            first = compiled.fallbacks[0]
            raise CompileError(f"{first.target} ({first.node}) is in a partition, and {first.reason}")
        return PreprocessResult(compiled.data, debug_handle_map=_handles(edge_program, compiled))


def _handles(program: torch.export.ExportedProgram, compiled: Compiled) -> dict[str, tuple[int, ...]]:
    """Return the nodes' debug handles for the names under which the runtime times instructions."""
    handles = {node.name: node.meta.get("debug_handle") for node in program.graph.nodes}
    found: dict[str, tuple[int, ...]] = {}
    for instruction in compiled.program.instructions:
        handle = handles.get(instruction.node)
        if isinstance(handle, int):
            found[f"{instruction.op.name} {instruction.node}"] = (handle,)
    return found


def beyond_core() -> list[Any]:
    """Return the operators of ATen that have a rule and are not of its core: what else ExecuTorch refuses to see.

    >>> config = EdgeCompileConfig(_core_aten_ops_exception_list=beyond_core())
    """
    import torch

    found = []
    for name in all_rules():
        namespace, packet, overload = name.split(".")
        operator = getattr(getattr(getattr(torch.ops, namespace), packet, None), overload, None)
        if operator is not None and torch.Tag.core not in operator.tags:
            found.append(operator)
    return found


@final
class AtallaPartitioner(Partitioner):  # type: ignore[misc]
    """Takes every node that has a rule, in as few partitions as the graph allows."""

    def __init__(self, *, exact: bool = False, bf16: bool = False, threads: int = 1) -> None:
        """Keep how partitions are compiled.

        Args:
            exact: never reorder sums: no convolution by Winograd's.
            bf16: multiply by weights in bfloat16 and add in float32.
            threads: of a run, unless whoever loads the program says otherwise.
        """
        super().__init__()
        options = {EXACT: exact, BF16: bf16, THREADS: threads}
        specs = [CompileSpec(name, b"%d" % value) for name, value in options.items()]
        self._spec = DelegationSpec(AtallaBackend.__name__, specs)
        self._asked: torch.export.ExportedProgram | None = None
        self._kept: set[str] = set()

    @property
    def delegation_spec(self) -> DelegationSpec:
        """What every partition is compiled with."""
        return self._spec

    def ops_to_not_decompose(self, ep: torch.export.ExportedProgram) -> tuple[list[Any], None]:
        """Return the composites that arrive whole: those of which every node has a rule.

        ExecuTorch refuses a program in which one of them is left undelegated, and asks again, more than once, for the
        same program and for the finished one.
        """
        import torch

        if ep.dialect != "EDGE" and ep is not self._asked:
            normal = normalize(ep)
            functions = [node for node in normal.graph.nodes if node.op == "call_function"]
            refused = try_to_lower(normal, functions).refused
            left = {str(node.target) for node in functions if node.name in refused}
            self._kept |= {name for name in COMPOSITES if f"aten.{name}" not in left}
            self._asked = ep
        packets = (name.partition(".") for name in sorted(self._kept))
        operators = [getattr(getattr(torch.ops.aten, packet), overload) for packet, _, overload in packets]
        table = torch.export.default_decompositions()
        return [one for one in operators if one in table], None

    def partition(self, exported_program: torch.export.ExportedProgram) -> PartitionResult:
        """Tag the nodes that are delegated, and the constants that only they read."""
        from executorch.exir.backend.utils import tag_constant_data

        groups, refused = _partitions(exported_program)
        tags = {f"atalla_{number}": group for number, group in enumerate(groups)}
        for tag, group in tags.items():
            for node in group:
                node.meta["delegation_tag"] = tag
        for node in exported_program.graph.nodes:
            if node.name in refused:
                self.refuse(node, refused[node.name])
        tag_constant_data(exported_program)
        return PartitionResult(exported_program, dict.fromkeys(tags, self._spec))

    def refuse(self, node: Node, reason: str) -> None:
        """Tell that a node is left to other kernels, and why; tools may listen here."""
        logger.info("%s (%s) is not delegated: %s", node.name, node.target, reason)


def _partitions(program: torch.export.ExportedProgram) -> tuple[list[list[Node]], dict[str, str]]:
    """Return the nodes of each partition, in order, and for the names of all others the reason.

    A partition reads what other partitions make as inputs, so that a constant may no longer be one: every partition is
    tried by itself, until none refuses a node.
    """
    aten = to_aten(program)
    twins = {node.name: node for node in aten.graph.nodes if node.op == "call_function"}
    refused = try_to_lower(aten, twins.values()).refused
    while True:
        groups = _proposed(program, twins.keys() - refused.keys())
        trials = [try_to_lower(aten, (twins[node.name] for node in group)) for group in groups]
        more = {name: why for trial in trials for name, why in trial.refused.items()}
        refused |= more
        if not more:
            return _working(groups, trials, refused), refused


def _proposed(program: torch.export.ExportedProgram, names: set[str]) -> list[list[Node]]:
    """Return the largest groups of the named nodes that can be run as one."""
    from torch.fx.passes.infra.partitioner import CapabilityBasedPartitioner
    from torch.fx.passes.operator_support import create_op_support

    support = create_op_support(lambda _, node: node.name in names)
    proposer = CapabilityBasedPartitioner(program.graph_module, support, allows_single_node_partition=True)
    order = {node: place for place, node in enumerate(program.graph.nodes)}
    groups = [sorted(partition.nodes, key=order.__getitem__) for partition in proposer.propose_partitions()]
    return sorted(groups, key=lambda group: order[group[0]])


def _working(groups: Sequence[list[Node]], trials: Sequence[Trial], refused: dict[str, str]) -> list[list[Node]]:
    """Leave out partitions of views and constants, but for composites, which other kernels do not know."""
    kept = []
    for group, trial in zip(groups, trials, strict=True):
        if trial.works or any(str(unwrapped(node.target)).removeprefix("aten.") in COMPOSITES for node in group):
            kept.append(group)
        else:
            refused |= {node.name: _IDLE for node in group}
    return kept
