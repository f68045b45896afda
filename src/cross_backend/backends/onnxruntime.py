"""onnxruntime: ONNX Runtime's execution providers, strict: no silent fallback to another provider."""

from __future__ import annotations

import functools
import json
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

from cross_backend.artifact import Artifact, Placement, count_operators
from cross_backend.backend import THREADS, Backend, Calibration, Lowered, Missing, Options, Session
from cross_backend.backends._packages import missing_packages
from cross_backend.backends._timings import typical
from cross_backend.capture import OnnxProgram, Program
from cross_backend.errors import LoadError, LowerError, one_line
from cross_backend.records import Timing
from cross_backend.tensors import Tensors, to_numpy

if TYPE_CHECKING:
    from cross_backend.machine import Machine

OPSET = 20


@final
class OnnxRuntimeCpu(Backend):
    """The CPU execution provider."""

    name = "onnxruntime.cpu"
    title = "ONNX Runtime (CPU)"
    suffix = ".onnx"
    distributions = ("onnxruntime", "onnx", "onnxscript", "torch")
    preload = ("torch.onnx", "onnxscript")
    options = {"threads": THREADS}

    def missing(self, machine: Machine) -> Missing | None:
        return missing_packages(self.distributions, ("onnxruntime",), "onnxruntime")

    def lower(self, program: Program, options: Options, stem: Path, calibration: Calibration) -> Lowered:
        import onnx

        payload = stem.with_name(stem.name + self.suffix)
        if isinstance(program, OnnxProgram):
            payload.write_bytes(program.path.read_bytes())
        else:
            export_onnx(program, payload)
        graph = onnx.load(payload, load_external_data=False).graph
        inside = count_operators(Counter(node.op_type for node in graph.node))
        return Lowered(payload, Placement(inside=inside, constant_bytes=sum(t.ByteSize() for t in graph.initializer)))

    def load(self, artifact: Artifact, options: Options) -> Session:
        return _OnnxRuntimeSession(artifact, options)

    def profile(self, artifact: Artifact, options: Options, inputs: Tensors, runs: int) -> tuple[Timing, ...]:
        session = _OnnxRuntimeSession(artifact, options)
        with tempfile.TemporaryDirectory() as folder:
            session.trace = Path(folder) / "trace"
            with session:
                run = session.bind(inputs)
                for _ in range(runs + 1):
                    run()
                events = session.end_trace()
        return typical(list(_runs(events))[1:])


def export_onnx(program: Any, path: Path) -> None:
    """Write a captured program as one ONNX file; programs that need it are decomposed first.

    Raises:
        LowerError: with the exporter's reason.
    """
    import torch

    try:
        try:
            model = torch.onnx.export(program, dynamo=True, opset_version=OPSET, verbose=False)
        except torch.onnx.errors.OnnxExporterError:
            model = torch.onnx.export(program.run_decompositions(), dynamo=True, opset_version=OPSET, verbose=False)
        if model is None:
            raise LowerError("torch.onnx gave no model.")
        model.save(path, external_data=False)
    except LowerError:
        raise
    except Exception as error:
        raise LowerError(f"torch.onnx cannot export it: {one_line(error)}") from error


def _runs(events: Iterable[Mapping[str, Any]]) -> Iterator[list[Timing]]:
    """Give the rows of every run of a trace, whose events are in the order in which they ended; times are in µs.

    A node that holds a subgraph counts without the nodes in it, which ended before it and began after it.
    """
    nodes: list[Mapping[str, Any]] = []
    rows: list[Timing] = []
    for event in events:
        if event.get("cat") == "Node" and "op_name" in event["args"]:
            within = 0
            while nodes and nodes[-1]["ts"] >= event["ts"]:
                within += nodes.pop()["dur"]
            nodes.append(event)
            rows.append(Timing(event["args"]["op_name"], "operator", 1, (event["dur"] - within) / 1e3))
        elif event["name"] == "model_run":
            yield rows
            nodes, rows = [], []


class _OnnxRuntimeSession(Session):
    trace: Path | None = None
    """Where a profile begins its file's name; to be said before the session is opened."""

    def _open(self) -> None:
        import onnxruntime

        settings = onnxruntime.SessionOptions()
        settings.log_severity_level = 4
        if self.options["threads"] is not None:
            settings.intra_op_num_threads = self.options["threads"]
        if self.trace is not None:
            settings.enable_profiling, settings.profile_file_prefix = True, str(self.trace)
        try:
            self._session = onnxruntime.InferenceSession(
                self.artifact.payload_path, settings, providers=["CPUExecutionProvider"]
            )
        except Exception as error:
            raise LoadError(f"ONNX Runtime cannot load {self.artifact.payload_path.name}: {one_line(error)}") from error

    def _bind(self, inputs: Tensors) -> Callable[[], Tensors]:
        import numpy as np

        feed = {
            value.name: np.array(to_numpy(x), order="C")
            for value, x in zip(self._session.get_inputs(), inputs, strict=True)
        }
        return functools.partial(self._session.run, None, feed)

    def end_trace(self) -> list[dict[str, Any]]:
        """Give the events that were recorded since the session was opened with ``trace``."""
        events: list[dict[str, Any]] = json.loads(Path(self._session.end_profiling()).read_bytes())
        return events

    def _close(self) -> None:
        del self._session

    _session: Any
