"""What ``compare`` and ``localize`` show of a search for inputs, and of a vendor's script."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cross_backend.cache import Cache
    from cross_backend.comparison.settings import Settings
    from cross_backend.exporting.export import Exported
    from cross_backend.localization.found import Localized
    from cross_backend.localization.hunting import Hunted
    from cross_backend.program.captured import Captured
    from cross_backend.report.terminal import Terminal


def show_hunt(
    captured: Captured,
    rows: Sequence[Exported],
    seconds: float,
    settings: Settings,
    cache: Cache,
    terminal: Terminal,
    against: Exported | None = None,
) -> list[Hunted]:
    """Search for inputs on which a target is wrong, print what was found, and return it."""
    from cross_backend.localization.hunting import hunt_all

    with terminal.progress() as show:

        def told(doing: str, share: float) -> None:
            show("hunt", doing, share, "")

        hunted = hunt_all(captured, rows, seconds, settings, cache, told, against)
    if not terminal.quiet:
        for one in hunted:
            terminal.text(f"🔎 {one.sentence}")
    return hunted


def write_script(captured: Captured, found: Localized, folder: Path, cache: Cache, terminal: Terminal) -> None:
    """Write a reproducer for the vendor, and print where it lies."""
    from cross_backend.localization.vendors_script import reproducer_for

    with terminal.progress() as show:
        made = reproducer_for(
            captured,
            found,
            folder,
            cache,
            lambda doing, done, total: show("script", f"{doing} ({done} of {total} lowerings)", done / total, ""),
        )
    if not terminal.quiet:
        terminal.text(f"📝 {made.script} ({made.lines} lines) shows it by itself; {made.text} is for the tracker.")
