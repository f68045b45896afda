"""The truth of an ONNX file: what evaluators agree on, judged against each other.

ONNX's own evaluator is wrong for some operators of older opsets (BatchNormalization 9 to 13, Softmax 7 to 12), and
refuses others. So three are asked: the evaluator, the evaluator on the file converted to a current opset, and ONNX
Runtime without any optimisation. An evaluation that the runtime agrees with decides. Where all part, the first operator
that they part at is named, and nothing is judged.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cross_backend.errors import CaptureError, one_line
from cross_backend.verify.deviation import agree

if TYPE_CHECKING:
    import numpy as np

    Arrays = Sequence[np.ndarray[Any, Any]]
    Run = Callable[[Mapping[str, Any]], list[Any]]

OPSET = 21
"""What files of older opsets are converted to."""
EVALUATOR = "ONNX's reference evaluator"
CONVERTED = f"ONNX's reference evaluator at opset {OPSET}"
RUNTIME = "ONNX Runtime without optimisation"


@dataclass(frozen=True)
class Truth:
    """What a model returns for one input, and who says so."""

    outputs: Arrays
    reference: str
    """Who decided: one of the three, and whether another agreed."""
    run: Run
    """The same for other inputs; it may raise anything."""
    doubt: str | None = None
    """Why the outputs may be wrong, in one clause; None where two agree, or only one can run the file."""


def find_truth(model: Any, feed: Mapping[str, Any], name: str) -> Truth:
    """Find out what a model returns.

    Args:
        model: ``onnx.ModelProto`` that holds its weights.
        feed: name of an input → array.
        name: of the file, for the reader.

    Raises:
        CaptureError: none of the three can run it.
    """
    runs: dict[str, Run] = {EVALUATOR: _evaluator(model), RUNTIME: runtime_of(model)}
    found: dict[str, Arrays] = {}
    failed: dict[str, str] = {}
    for who in (EVALUATOR, RUNTIME):
        _ask(who, runs, feed, found, failed)
    if _opset(model) < OPSET and not _agreed(EVALUATOR, found):
        runs[CONVERTED] = _converted(model)
        _ask(CONVERTED, runs, feed, found, failed)
    for who in (EVALUATOR, CONVERTED):
        if _agreed(who, found):
            return Truth(found[who], f"{who}, and {RUNTIME} agrees", runs[who])
    if not found:
        reasons = "; ".join(f"{who}: {reason}" for who, reason in failed.items())
        raise CaptureError(f"{name} has no reference, because nothing here can run it ({reasons}).")
    alone = [who for who in (CONVERTED, EVALUATOR) if who in found]
    if RUNTIME not in found or not alone:  # an evaluator that agrees with itself at another opset is no second opinion
        who = alone[0] if alone else RUNTIME
        return Truth(found[who], f"{who} alone", runs[who])
    place = _parted(model, feed) or "its outputs"
    return Truth(found[RUNTIME], RUNTIME, runs[RUNTIME], f"{alone[0]} and {RUNTIME} part at {place}")


def _agreed(who: str, found: Mapping[str, Arrays]) -> bool:
    return who in found and RUNTIME in found and agree(found[who], found[RUNTIME])


def _ask(
    who: str, runs: Mapping[str, Run], feed: Mapping[str, Any], found: dict[str, Arrays], failed: dict[str, str]
) -> None:
    import numpy as np

    try:
        found[who] = [np.asarray(y) for y in runs[who](feed)]
    except Exception as error:
        failed[who] = one_line(error, 160)


def _opset(model: Any) -> int:
    return max((one.version for one in model.opset_import if one.domain in {"", "ai.onnx"}), default=OPSET)


def _evaluator(model: Any) -> Run:
    def run(feed: Mapping[str, Any]) -> list[Any]:
        from onnx.reference import ReferenceEvaluator

        return list(ReferenceEvaluator(model).run(None, dict(feed)))

    return run


def _converted(model: Any) -> Run:
    def run(feed: Mapping[str, Any]) -> list[Any]:
        from onnx import version_converter

        return _evaluator(version_converter.convert_version(model, OPSET))(feed)

    return run


def runtime_of(model: Any) -> Run:
    """Return what runs a model in ONNX Runtime, every node as it stands in the file."""
    sessions: list[Any] = []

    def run(feed: Mapping[str, Any]) -> list[Any]:
        if not sessions:
            sessions.append(plain_session(model.SerializeToString()))
        return list(sessions[0].run(None, dict(feed)))

    return run


def plain_session(model: bytes | Path) -> Any:
    """Return a session of ONNX Runtime that changes nothing in the graph."""
    import onnxruntime

    settings = onnxruntime.SessionOptions()
    settings.log_severity_level = 4
    settings.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return onnxruntime.InferenceSession(model, settings, providers=["CPUExecutionProvider"])


def _parted(model: Any, feed: Mapping[str, Any]) -> str | None:
    """Return the first node at whose outputs the evaluator and the runtime part; None where that cannot be found."""
    import numpy as np
    import onnx

    names = [output for node in model.graph.node for output in node.output if output]
    exposed = onnx.ModelProto()
    exposed.CopyFrom(model)
    del exposed.graph.output[:]
    exposed.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names)
    with contextlib.suppress(Exception):
        known = {**feed, **dict(zip(names, map(np.asarray, runtime_of(exposed)(feed)), strict=True))}
        for node in model.graph.node:
            if not _same_alone(model, node, known):
                return f"{node.op_type}{f' ({node.name})' if node.name else ''}"
    return None


def _same_alone(model: Any, node: Any, known: Mapping[str, Any]) -> bool:
    """Whether the evaluator returns for one node what is known of its outputs."""
    import numpy as np
    import onnx

    one = onnx.ModelProto()
    one.CopyFrom(model)
    del one.graph.node[:], one.graph.output[:], one.graph.value_info[:]
    one.graph.node.append(node)
    one.graph.output.extend(onnx.ValueInfoProto(name=name) for name in node.output if name)
    given = {name: known[name] for name in node.input if name in known}
    try:
        made = [np.asarray(y) for y in _evaluator(one)(given)]
    except Exception:
        return False
    return agree(made, [known[name] for name in node.output if name])
