"""LiteRT's own objects: an interpreter of a file, and which operators its XNNPACK delegate took."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from cross_backend.errors import LoadError, failing_as

_DELEGATE = "DELEGATE"


def open_file(path: Path, threads: int | None) -> Any:
    """Return an interpreter whose tensors have their memory.

    Args:
        path: of a file that was checked.
        threads: of the interpreter; None for its own choice, which is one.

    Raises:
        LoadError: the runtime cannot open it.
    """
    from ai_edge_litert.interpreter import Interpreter

    with failing_as(LoadError, f"LiteRT cannot load {path.name}"):
        interpreter = Interpreter(model_path=str(path), num_threads=threads)
        interpreter.allocate_tensors()
    return interpreter


def delegated(interpreter: Any) -> tuple[int, frozenset[int]]:
    """Return how many parts of a graph the XNNPACK delegate took, and the operators inside of them, by their place.

    The interpreter lists a part as an operator behind those of the file, with what goes in and what comes out. Inside
    is what computes that out of this.
    """
    rows = interpreter._get_ops_details()
    parts = [row for row in rows if row["op_name"] == _DELEGATE]
    maker = {int(tensor): row for row in rows if row["op_name"] != _DELEGATE for tensor in row["outputs"]}
    inside: set[int] = set()
    for part in parts:
        borders, left = {int(i) for i in part["inputs"]}, [int(i) for i in part["outputs"]]
        while left:
            row = maker.get(left.pop())
            if row is None or row["index"] in inside:
                continue
            inside.add(int(row["index"]))
            left += [int(i) for i in row["inputs"] if int(i) not in borders]
    return len(parts), frozenset(inside)
