"""What a finished ``.mnn`` file computes: the operators that MNN itself makes of it and runs."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from cross_backend.backends.mnn._convert import input_name
from cross_backend.backends.mnn._engine import host_of, open_file, record
from cross_backend.placement import Placement, count_operators
from cross_backend.tensors import Tensors


def read_placement(path: Path, inputs: Tensors, precision: str) -> Placement:
    """Run a file once and count its operators; MNN's package has no reader of files beside its interpreter.

    Args:
        path: of the file.
        inputs: flat positional tensors.
        precision: ``fp32`` or ``fp16``.

    Raises:
        LoadError, RunError: MNN cannot open or run it.
    """
    interpreter, session = open_file(path, precision, 1)
    names = {input_name(index): x for index, x in enumerate(inputs)}
    read = interpreter.getSessionInputAll(session)
    for name, tensor in read.items():
        interpreter.resizeTensor(tensor, tuple(names[name].shape))
    interpreter.resizeSession(session)
    hosts = [(tensor, *host_of(tensor, name, names[name])) for name, tensor in read.items()]
    return Placement(inside=count_operators(Counter(row.name for row in record(interpreter, session, hosts))))
