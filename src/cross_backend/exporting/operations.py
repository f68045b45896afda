"""Operations: the captured program of an artifact as a graph: each operation, its line of Python, and where it went.

Read from the program's own JSON, without torch. Where an operation went is what the certificate says of its line: the
finished file knows other operators than the program, as compilers take some apart and join others.
"""

from __future__ import annotations

import functools
import json
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from cross_backend.artifact import Artifact
from cross_backend.bundling.archive import ZIP_DAMAGE
from cross_backend.cache import Cache
from cross_backend.errors import CrossBackendError
from cross_backend.foreign_files import open_member, open_zip
from cross_backend.placement import Operators
from cross_backend.program.captures import capture_of
from cross_backend.program.lines import user_line

INSIDE, LEFT, BESIDE = "inside", "left", "beside"
"""Where an operation went; ``beside`` where an operation of its line is not delegated and is none of the program's."""
MODEL = "models/model.json"
MAX_BYTES = 64 << 20
"""Largest description of a program that is read."""


@dataclass(frozen=True)
class Operation:
    """One call of the captured program."""

    index: int
    """Its place in the order in which they run."""
    name: str
    """The program's own name of it: ``conv2d_5``."""
    operator: str
    """``conv2d``"""
    module: str
    """Path of the module that called it: ``features.4.block.0``; empty at the top."""
    line: str
    """The user's line that made it; empty where none is known."""
    feeds_on: tuple[int, ...]
    """Operations whose outputs it takes."""
    place: str = INSIDE
    """INSIDE, LEFT or BESIDE."""
    why: str = ""
    """Of what is not delegated: the reason."""


def operations(artifact: Artifact, cache: Cache) -> tuple[Operation, ...]:
    """Return the operations of an artifact's program; none where the cache does not hold it as a torch program."""
    capture = capture_of(artifact.program, cache)
    return () if capture is None else operations_in(capture, artifact)


def operations_in(capture: Path, artifact: Artifact) -> tuple[Operation, ...]:
    """Return the operations of the program in a capture's folder; none where it is no torch program."""
    try:
        path = capture / str(json.loads((capture / "capture.json").read_text())["program_name"])
        if path.suffix != ".pt2":
            return ()
        return placed(_read(path, path.stat().st_mtime_ns), artifact.placement.left)
    except (CrossBackendError, StopIteration, KeyError, *ZIP_DAMAGE):
        return ()  # damaged, or of another version of torch: whoever exports it again drops it


@functools.lru_cache(maxsize=8)
def _read(path: Path, _changed_ns: int) -> tuple[Operation, ...]:
    with open_zip(path) as archive:
        member = next(info for info in archive.infolist() if info.filename.endswith(MODEL))
        if member.file_size > MAX_BYTES:
            raise ValueError(member.file_size)
        with open_member(archive, member) as file:
            graph = json.loads(file.read(MAX_BYTES))["graph_module"]["graph"]
    return parsed(graph["nodes"])


def parsed(nodes: Sequence[Mapping[str, Any]]) -> tuple[Operation, ...]:
    """Return the calls of a program's JSON, in order; each feeds on earlier ones only."""
    maker: dict[str, int] = {}
    found = []
    for index, node in enumerate(nodes):
        about = node["metadata"]
        made = list(_names(node["outputs"]))
        stack = str(about.get("nn_module_stack") or "").split(";")[-1].split(",")
        feeds_on = sorted({maker[name] for name in _names(node["inputs"]) if name in maker})
        target = str(node["target"]).split(".")
        found.append(
            Operation(
                index,
                str(node.get("name") or (made[0] if made else f"call {index}")),
                target[-2] if len(target) > 2 else target[-1],
                stack[1] if len(stack) > 1 else "",
                user_line(about.get("stack_trace")) or "",
                tuple(feeds_on),
            )
        )
        maker.update(dict.fromkeys(made, index))
    return tuple(found)


def _names(value: Any) -> Iterator[str]:
    """Yield all names of values in arguments or outputs, in lists and options, too."""
    if isinstance(value, dict):
        for key, inner in value.items():
            if key in ("name", "as_name") and isinstance(inner, str):
                yield inner
            else:
                yield from _names(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _names(inner)


def placed(found: Sequence[Operation], left: Sequence[Operators]) -> tuple[Operation, ...]:
    """Say of each operation where it went, by operator and line of what is not delegated."""
    by_line: dict[str, list[Operation]] = defaultdict(list)
    for one in found:
        by_line[one.line].append(one)
    count = Counter(_plain(one.operator) for one in found)
    told: dict[int, tuple[str, str]] = {}
    for row in left:
        kind, why = _plain(row.name.replace("::", ".").split(".")[1:2][0]) if "::" in row.name else "", row.why or ""
        if not row.lines and 0 < count[kind] <= row.count:
            told |= {one.index: (LEFT, why) for one in found if _plain(one.operator) == kind}
        for line in row.lines:
            there = by_line[line]
            same = [one for one in there if _plain(one.operator) == kind]
            same = same or (there if len(there) == 1 else [])
            told |= {one.index: (LEFT, why) for one in same}
            if not same:
                text = f"{row.name} of its source line is not delegated: {why or 'no reason is known'}"
                told |= {one.index: told.get(one.index, (BESIDE, text)) for one in there}
    return tuple(
        replace(one, place=told[one.index][0], why=told[one.index][1]) if one.index in told else one for one in found
    )


def _plain(operator: str) -> str:
    """Return ``relu`` for ``relu_`` and ``softmax`` for ``_softmax``."""
    return operator.strip("_")
