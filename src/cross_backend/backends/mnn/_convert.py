"""From a captured program to an ``.mnn`` file: through ONNX and MNN's converter, in a process of its own.

The converter's own command installs a package with pip and sends what was converted to its vendor; the function behind
it does neither, and is called here.
"""

from __future__ import annotations

import itertools
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from cross_backend.backends._onnx import lower_to_onnx, tensors_of_file
from cross_backend.backends.mnn._types import first_node, last_node, widen
from cross_backend.errors import LowerError, UnsupportedError, failing_as
from cross_backend.program.captured import OnnxProgram, Program
from cross_backend.program.composites import with_plain_attention

_CONVERTER = "import sys, _tools; _tools.mnnconvert(sys.argv)"
_ABSENT = re.compile(r"These Op Not Support: (.*)")
_SAID = re.compile(r"error|fail|check", re.IGNORECASE)
_REASON = 300
"""Most characters of the converter's text in an error."""


def input_name(index: int) -> str:
    """Return how an input is called in the file: the converter returns outputs in another order than the program."""
    return f"input_{index}"


def output_name(index: int) -> str:
    """Return how an output is called in the file."""
    return f"output_{index}"


def convert(program: Program, path: Path, *, half: bool) -> None:
    """Write the file.

    Args:
        program: not modified.
        path: receives it.
        half: whether weights are stored in 16 bits.

    Raises:
        UnsupportedError: MNN has no such operator; names it.
        LowerError: the exporter or the converter failed.
    """
    try:
        _convert(program, path, half=half)
    except UnsupportedError:
        if isinstance(program, OnnxProgram):
            raise
        plain = with_plain_attention(program)  # the exporter guards attention against NaN by operators that MNN lacks
        if plain is program:
            raise
        _convert(plain, path, half=half)


def _convert(program: Program, path: Path, *, half: bool) -> None:
    with tempfile.TemporaryDirectory() as folder:
        source = lower_to_onnx(program, Path(folder) / "model").payload
        _check(source)
        _prepare(source)
        done = subprocess.run(
            [
                *(sys.executable, "-c", _CONVERTER),
                *("-f", "ONNX", "--modelFile", str(source), "--MNNModel", str(path), "--bizCode", "cross-backend"),
                *(("--fp16",) if half else ()),
            ],
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            check=False,
        )
    said = done.stdout.decode(errors="replace")
    if absent := _ABSENT.search(said):
        raise UnsupportedError(f"MNN has no operator for {', '.join(absent[1].split())[:_REASON]}.")
    if done.returncode or not path.is_file():
        lines = [line.strip() for line in said.splitlines() if line.strip()]
        told = next((line for line in lines if _SAID.search(line)), (lines or ["no output"])[-1])
        raise LowerError(f"MNN's converter failed (status {done.returncode}): {told[:_REASON]}")


def _check(path: Path) -> None:
    """Refuse tensors that MNN would compute in a narrower type."""
    for spec in itertools.chain(*tensors_of_file(path)):
        if spec.dtype == "float64":
            raise UnsupportedError(f"MNN cannot take it: {spec.name!r} is {spec}, and MNN computes in float32.")


def _prepare(path: Path) -> None:
    """Change an ONNX file into one that the converter takes: names, and types at its edges.

    Inputs and outputs are named by their places; the converter removes what does so.
    """
    import onnx

    with failing_as(LowerError, f"{path.name} is damaged or not an ONNX model"):
        model = onnx.load(path)
        graph = model.graph
        widen(graph)
        constants = {tensor.name for tensor in graph.initializer}
        first, last = [], []
        for index, value in enumerate(value for value in graph.input if value.name not in constants):
            first.append(first_node(value, input_name(index)))
            value.name = input_name(index)
        for index, value in enumerate(graph.output):
            last.append(last_node(value, output_name(index)))
            value.name = output_name(index)
        nodes = list(graph.node)
        del graph.node[:]
        graph.node.extend([*first, *nodes, *last])
        onnx.save(model, path)
