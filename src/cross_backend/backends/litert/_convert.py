"""From a captured program to a float32 ``.tflite`` file; runs in the toolchain that has the converter."""

from __future__ import annotations

import logging
import os
import re
from pathlib import Path
from typing import Any

from cross_backend.backends.litert._file import TfliteGraph, read_graph
from cross_backend.backends.litert._session import GIVEN, TAKEN
from cross_backend.errors import LowerError, UnsupportedError, one_line
from cross_backend.program.capture import ports_of

_NO_LOWERING = re.compile(r"Lowering not found: (\S+)")
_QUANTISERS = {"quantized_decomposed", "torchao"}
"""Namespaces of operators that quantise."""
_PROGRESS = "LITERT_TORCH_SHOW_PROGRESS"


def convert(program: Any, path: Path) -> TfliteGraph:
    """Write the file and read it back.

    Args:
        program: an ``ExportedProgram``; it is not changed.
        path: receives the file.

    Raises:
        UnsupportedError: LiteRT has no such operator or type; names it.
        LowerError: the converter failed.
    """
    if any(getattr(node.target, "namespace", None) in _QUANTISERS for node in program.graph.nodes):
        raise UnsupportedError(
            "the model is quantised already, and LiteRT's converter takes float models only: give it that one, with "
            "?precision=int8."
        )
    args, _ = program.example_inputs
    os.environ.setdefault(_PROGRESS, "n")
    import litert_torch

    logging.getLogger().setLevel(logging.WARNING)
    try:
        model = litert_torch.convert(program.module(check_guards=False), args)
        path.write_bytes(model.model_content())
    except OSError:
        raise
    except Exception as error:
        if absent := _NO_LOWERING.search(str(error)):
            raise UnsupportedError(f"LiteRT's converter has no form for {absent[1]}.") from error
        raise LowerError(f"LiteRT's converter failed: {one_line(error)}") from error
    graph = read_graph(path)
    _check_ports(program, graph)
    return graph


def _check_ports(program: Any, graph: TfliteGraph) -> None:
    """Refuse inputs and outputs that the file has in a type that loses digits."""
    given, got = ports_of(program)
    if (len(given), len(got)) != (len(graph.inputs), len(graph.outputs)):
        raise LowerError(
            f"LiteRT's converter wrote {len(graph.inputs)} inputs and {len(graph.outputs)} outputs, where the program "
            f"has {len(given)} and {len(got)}."
        )
    for ports, tensors, others in ((given, graph.inputs, TAKEN), (got, graph.outputs, GIVEN)):
        for (name, value), tensor in zip(ports, tensors, strict=True):
            wanted = str(getattr(value, "dtype", "")).removeprefix("torch.")
            found = graph.tensors[tensor].dtype
            if wanted and found not in {wanted, others.get(wanted)}:
                raise UnsupportedError(
                    f"LiteRT cannot take it: {name!r} is {wanted}, which its converter makes {found}."
                )
