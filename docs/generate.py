"""Write docs/support-matrix.md from the registry; ``--check`` fails where the page is not what the code says."""

from __future__ import annotations

import sys
from pathlib import Path

from cross_backend.platforms import PLATFORMS
from cross_backend.registry import find_backend, rows

PAGE = Path(__file__).parent / "support-matrix.md"


def matrix() -> str:
    """Give the page."""
    lines = [
        "# Support matrix",
        "",
        "Written by `make docs` from the registry. What works on *your* machine: `cross-backend backends`.",
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


def main(arguments: list[str]) -> None:
    """Write or check."""
    page = matrix()
    if "--check" in arguments:
        if not PAGE.is_file() or PAGE.read_text() != page:
            sys.exit(f"{PAGE.name} is not what the registry says; run 'make docs'.")
        return
    PAGE.write_text(page)


if __name__ == "__main__":
    main(sys.argv[1:])
