"""Lines: which line of the user's Python made a node, by the stack trace that torch notes."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch.export import ExportedProgram

_PACKAGES = {"site-packages", "dist-packages"}


def digest_lines(program: ExportedProgram) -> str:
    """Return a digest of the lines that made the nodes, those of branches and loops included."""
    from torch.fx import GraphModule

    graphs = [one.graph for one in program.graph_module.modules() if isinstance(one, GraphModule)]
    lines = [user_line(node.meta.get("stack_trace")) or "" for graph in graphs for node in graph.nodes]
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def named_lines(program: ExportedProgram) -> dict[str, str]:
    """Return each node's name with its line: ``conv2d_3 (model.py:12 forward: ...)``."""
    told = {}
    for node in program.graph.nodes:
        line = user_line(node.meta.get("stack_trace"))
        told[node.name] = f"{node.name}{f' ({line})' if line else ''}"
    return told


def user_line(trace: str | None) -> str | None:
    """Return the innermost line of a stack trace that is not torch's own: ``model.py:14 forward: y = x.sort()``.

    Folders of the machine that lowered are left out; packages are named from their root.
    """
    if not trace:
        return None
    lines = [line.strip() for line in trace.splitlines() if line.strip()]
    for at in range(len(lines) - 1, -1, -1):
        if not lines[at].startswith('File "'):
            continue
        file, _, rest = lines[at].removeprefix('File "').partition('", line ')
        path = Path(file)
        root = next((folder for folder in path.parents if folder.name in _PACKAGES), None)
        shown = path.relative_to(root) if root else Path(path.name) if path.is_absolute() else path
        if shown.parts[0] == "torch" or file.startswith("<"):  # generated code has no file
            continue
        number, _, function = rest.partition(", in ")
        source = lines[at + 1] if at + 1 < len(lines) and not lines[at + 1].startswith("File ") else ""
        return f"{shown.as_posix()}:{number} {function}: {source}".rstrip(": ")
    return None
