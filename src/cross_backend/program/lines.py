"""Lines: which line of the user's Python made a node, by the stack trace that torch notes."""

from __future__ import annotations

from pathlib import Path

_PACKAGES = {"site-packages", "dist-packages"}


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
