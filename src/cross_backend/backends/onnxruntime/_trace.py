"""ONNX Runtime's trace: which node ran where and for how long."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cross_backend.backends.onnxruntime._providers import Provider
from cross_backend.records import Execution, Timing

_FUSED = re.compile(r"ExecutionProvider|subgraph", re.IGNORECASE)
"""In the operator's name of a node that a provider compiled from several."""
_COPIES = {"MemcpyFromHost", "MemcpyToHost"}
"""Nodes that ONNX Runtime adds between providers; they belong to no model."""


@dataclass(frozen=True)
class NodeRun:
    """One node in one run."""

    operator: str
    provider: str
    """ONNX Runtime's identifier."""
    us: int
    """Microseconds, without those of nodes inside it."""

    @property
    def is_fused(self) -> bool:
        """Whether it is the provider's own, compiled from several nodes of the model."""
        return bool(_FUSED.search(self.operator))


def runs_of(events: Iterable[Mapping[str, Any]]) -> Iterator[list[NodeRun]]:
    """Return the nodes of every run of a trace, whose events are in the order in which they ended; times are in µs.

    A node that holds a subgraph counts without the nodes in it, which ended before it and began after it.
    """
    nodes: list[Mapping[str, Any]] = []
    rows: list[NodeRun] = []
    for event in events:
        if event.get("cat") == "Node" and "op_name" in event["args"]:
            within = 0
            while nodes and nodes[-1]["ts"] >= event["ts"]:
                within += nodes.pop()["dur"]
            nodes.append(event)
            rows.append(NodeRun(event["args"]["op_name"], event["args"].get("provider", ""), event["dur"] - within))
        elif event["name"] == "model_run":
            yield rows
            nodes, rows = [], []


def timings_of(nodes: Iterable[NodeRun]) -> list[Timing]:
    """Return the rows of a profile; what a provider compiled as a whole is a delegate's call."""
    return [
        Timing(short(node.provider), "delegate", 1, node.us / 1e3)
        if node.is_fused
        else Timing(node.operator, "operator", 1, node.us / 1e3)
        for node in nodes
    ]


def execution_of(
    provider: Provider,
    runs: Sequence[Sequence[NodeRun]],
    assigned: Counter[tuple[str, str]] | None,
    precision: str,
    *,
    is_emulated: bool = False,
) -> Execution:
    """Return which share of a model ran on the provider it was opened for.

    Nodes are counted as in the model where ONNX Runtime reports their assignment (``assigned``): a provider may make
    one of several; by the trace otherwise. A provider that only takes work in and answers later has no times.

    Args:
        provider: what was asked for.
        runs: traced runs, without the first; at least one.
        assigned: (provider, operator) → nodes of the graph; None where it is not known.
        precision: what the provider was told to compute in.
        is_emulated: whether software stands in for the device.
    """
    counted = assigned or Counter((node.provider, node.operator) for node in runs[-1] if node.operator not in _COPIES)
    here = sum(count for (where, _), count in counted.items() if where == provider.identifier)
    spent = sum(node.us for run in runs for node in run)
    spent_here = sum(node.us for run in runs for node in run if node.provider == provider.identifier)
    elsewhere = Counter(
        {
            f"{operator} @ {short(where)}": count
            for (where, operator), count in counted.items()
            if where != provider.identifier
        }
    )
    return Execution(
        device=provider.device,
        nodes=here / counted.total() if counted else None,
        time=spent_here / spent if spent and not provider.is_asynchronous else None,
        elsewhere=tuple(sorted(elsewhere.items(), key=lambda row: (-row[1], row[0]))),
        precision=precision,
        functional_only=provider.emulated if is_emulated else None,
    )


def short(identifier: str) -> str:
    """Return a provider's identifier without the words that all have."""
    return identifier.removesuffix("ExecutionProvider")
