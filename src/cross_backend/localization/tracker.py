"""Tracker: the text of a fault for the vendor's tracker, Markdown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from cross_backend.foreign_text import plain
from cross_backend.machine import Machine

MOST_PRINTED = 4000
"""Characters of what the script prints that the text holds."""


def tracker_text(
    title: str, operators: Sequence[str], fault: str, versions: Mapping[str, str], printed: str, script: str
) -> str:
    """Return the text: what is wrong, where, with what, and how to see it.

    Args:
        title: of the backend.
        operators: of the program, in order.
        fault: one line.
        versions: package → version, of those that take part.
        printed: what the script prints.
        script: the reproducer.
    """
    machine = Machine.here()
    names = ", ".join(f"`{name}`" for name in dict.fromkeys(operators))
    shown = printed if len(printed) <= MOST_PRINTED else printed[:MOST_PRINTED] + "\n…"
    packages = [f"- {name} {version}" for name, version in versions.items() if version]
    return "\n".join(
        [
            f"# {title}: wrong result of {names}",
            "",
            f"Compared with eager PyTorch: {fault}.",
            "The script below shows it. It exits with status 1 as long as the fault is there.",
            "",
            "## Versions",
            "",
            *packages,
            f"- Python {machine.python}, {machine.system} {machine.release}, {machine.arch}",
            f"- {machine.cpu}; {' '.join(machine.isa)}".rstrip("; "),
            "",
            "## Expected (eager PyTorch) and got",
            "",
            "```text",
            plain(shown).strip("\n"),
            "```",
            "",
            "## Script",
            "",
            "```python",
            script.strip("\n"),
            "```",
            "",
        ]
    )
