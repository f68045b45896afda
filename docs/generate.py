"""Write the generated pages: from the registry, argparse, docstrings, Atalla's rules, and the server's guides.

``--check`` fails where a page is not what the code says; both do where a link of a page does not resolve, or the marks
of a table that ``make bench`` writes are wrong.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import bench
import links
import references
import study_schema

from atalla import support
from cross_backend.names.platforms import PLATFORMS
from cross_backend.registry import find_backend, rows
from cross_backend.study.matrix import Matrix
from cross_backend.study.matrix import markdown as matrix_page

FOLDER = Path(__file__).parent
GUIDES = FOLDER.parent / "src" / "cross_backend" / "web" / "guides"
MATRIX = FOLDER / "matrix.json"
EVIDENCE = FOLDER.parent / "tests" / "atalla" / "evidence" / "evidence.json"


def matrix() -> str:
    """Give the page."""
    lines = [
        "# Support matrix",
        "",
        "Written by `make docs` from the registry. For *your* machine: `cross-backend backends`.",
        "",
        "| backend | short names | payload | life-cycle | options | packages | ONNX files |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for name, row in rows().items():
        backend = find_backend(name)
        options = "; ".join(
            f"`{key}`: {', '.join(option.choices) or 'number'}"
            + (f" (default {option.default})" if option.default else "")
            for key, option in backend.options.items()
        )
        cells = (
            f"`{name}`",
            ", ".join(f"`{alias}`" for alias in row.aliases),
            f"`{backend.suffix}`" if backend.suffix else "folder",
            backend.lifecycle.read(None),
            options,
            ", ".join(backend.distributions),
            backend.limits.get("onnx_program", "yes"),
        )
        lines.append(f"| {' | '.join(cell or '–' for cell in cells)} |")
    lines += ["", "## Platforms", "", "The order in which `--platform` exports and `load_best` tries.", ""]
    lines += ["| platform | order | why |", "| --- | --- | --- |"]
    for platform in PLATFORMS.values():
        order = " › ".join(f"`{name}`" for name in platform.backends)
        lines.append(f"| {platform.title} (`{platform.name}`) | {order} | {platform.why} |")
    return "\n".join(lines) + "\n"


def operators() -> str:
    """Give the page of Atalla's operators."""
    found = json.loads(EVIDENCE.read_text())
    return support.markdown(found["overloads"], found["operators"], found["known"])


def measured_matrix() -> str:
    """Give the page of the matrix that was measured last."""
    return matrix_page(Matrix.from_json(json.loads(MATRIX.read_text())))


def guide(name: str) -> Callable[[], str]:
    """Give a page that the server shows, too."""
    return GUIDES.joinpath(name).read_text


PAGES = {
    "support-matrix.md": matrix,
    "matrix.md": measured_matrix,
    "atalla/operators.md": operators,
    "reference/cli.md": references.command_line,
    "reference/api.md": references.python_api,
    "reference/study-file.md": study_schema.page,
    study_schema.FILE: study_schema.schema_file,
    **{path.name: guide(path.name) for path in sorted(GUIDES.glob("*.md"))},
}


def main(arguments: list[str]) -> None:
    """Write or check."""
    for name, page in PAGES.items():
        path, text = FOLDER / name, page()
        if "--check" not in arguments:
            path.parent.mkdir(exist_ok=True)
            path.write_text(text)
        elif not path.is_file() or path.read_text() != text:
            sys.exit(f"docs/{name} is not what the code says; run 'make docs'.")
    if found := [*links.mistakes(), *bench.mistakes()]:
        sys.exit("\n".join(found))


if __name__ == "__main__":
    main(sys.argv[1:])
