"""Delegate: the chip inside ExecuTorch: which nodes it takes, the blob that they become, and the runtime's half opened.

>>> program = to_edge_transform_and_lower(torch.export.export(model, inputs), partitioner=[MychipPartitioner()])
>>> load()
"""

from __future__ import annotations

import ctypes
import functools
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, final

from executorch.exir.backend.backend_details import BackendDetails, PreprocessResult
from executorch.exir.backend.compile_spec_schema import CompileSpec
from executorch.exir.backend.partitioner import DelegationSpec, Partitioner, PartitionResult

from mychip.blob import write
from mychip.build import SUFFIX, delegate_library, executorch
from mychip.compiler import compile_program, whole
from mychip.errors import BuildError
from mychip.kernels import library
from mychip.support import why_not

if TYPE_CHECKING:
    from torch.export import ExportedProgram
    from torch.fx import Node

logger = logging.getLogger(__name__)


@final
class MychipBackend(BackendDetails):  # type: ignore[misc]  # executorch has no types
    """Compiles a partition; the file names this class, and the runtime's half registers that name (delegate.cpp)."""

    @staticmethod
    def preprocess(edge_program: ExportedProgram, compile_specs: list[CompileSpec]) -> PreprocessResult:  # noqa: ARG004
        """Return the blob of a partition. CHIP: options of yours arrive as compile specs, a name and bytes each."""
        return PreprocessResult(write(compile_program(edge_program)))


@final
class MychipPartitioner(Partitioner):  # type: ignore[misc]
    """Takes every node that is the chip's, in as few partitions as the graph allows; other kernels do the rest."""

    def ops_to_not_decompose(self, ep: ExportedProgram) -> tuple[list[Any], Callable[[Node], bool]]:  # noqa: ARG002
        """Return the operators that arrive whole, where the chip can do the node: what is kept must be delegated."""
        return whole(), lambda node: why_not(node) is None

    def partition(self, exported_program: ExportedProgram) -> PartitionResult:
        """Tag the nodes of each partition, and the constants that only they read."""
        from executorch.exir.backend.utils import tag_constant_data
        from torch.fx.passes.infra.partitioner import CapabilityBasedPartitioner
        from torch.fx.passes.operator_support import create_op_support

        for node in exported_program.graph.nodes:
            if node.op == "call_function" and (why := why_not(node)):
                self.refuse(node, why)
        support = create_op_support(lambda _, node: node.op == "call_function" and why_not(node) is None)
        module = exported_program.graph_module
        proposer = CapabilityBasedPartitioner(module, support, allows_single_node_partition=True)
        spec, tags = DelegationSpec(MychipBackend.__name__, []), {}
        for number, group in enumerate(proposer.propose_partitions()):
            tags[f"mychip_{number}"] = spec
            for node in group.nodes:
                node.meta["delegation_tag"] = f"mychip_{number}"
        tag_constant_data(exported_program)
        return PartitionResult(exported_program, tags)

    def refuse(self, node: Node, reason: str) -> None:
        """Tell that a node is left to other kernels, and why; cross-backend listens here."""
        logger.info("%s (%s) is not delegated: %s", node.name, node.target, reason)


@functools.cache
def load() -> None:
    """Make ExecuTorch's runtime in this process hold MychipBackend.

    Raises:
        BuildError: something to build or to run it is missing, or the runtime refuses it.
    """
    library()
    try:
        ctypes.CDLL(str(executorch() / "lib" / f"libexecutorch{SUFFIX}"), ctypes.RTLD_GLOBAL)  # the one registry
        opened = ctypes.CDLL(str(delegate_library()))
    except OSError as error:
        raise BuildError(f"the delegate does not load: {error}") from error
    if status := opened.mychip_delegate_registered():
        raise BuildError(f"ExecuTorch's runtime refuses MychipBackend: error {status:#x}")
