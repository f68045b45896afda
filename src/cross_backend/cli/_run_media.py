"""Run once on a file that is no tensor, a picture, a text, a sound, and show the answer, drawn where it can be."""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from cross_backend.cli._run_steps import run_once
from cross_backend.errors import UsageError
from cross_backend.foreign_files import read_regular

if TYPE_CHECKING:
    from cross_backend.bench.bench import Bench
    from cross_backend.cli._run_given import Given
    from cross_backend.report.terminal import Terminal
    from cross_backend.workloads.media import Media, Shown

DRAWN = ".png"
"""Ending of ``--output`` that asks for a drawing."""
BAR = 24
"""Cells of the longest bar."""
MOST_BOXES = 20
"""Boxes that are listed; the document has all."""
MOST_TOKENS = 16


def run_media(args: argparse.Namespace, given: Given, media: Media, bench: Bench, terminal: Terminal) -> None:
    """Run what a bench has open on the file that ``--input`` names, and print what it returns.

    Raises:
        UsageError: the file is something else than the model works on, or ``--output`` does not go with it.
        RunError: the run fails, or its outputs are not finite.
    """
    from cross_backend.tensors import load_tensors, save_tensors
    from cross_backend.workloads.media import fitted
    from cross_backend.workloads.media.base import MAX_BYTES

    path = Path(args.input)
    draws = args.output is not None and args.output.suffix.lower() == DRAWN
    source = read_regular(path, MAX_BYTES)
    prepared = media.prepare(source, path.name)
    with tempfile.TemporaryDirectory() as folder:
        inputs, outputs = Path(folder) / "inputs.npz", Path(folder) / "outputs.npz"
        save_tensors(inputs, {"input": fitted(prepared, given.inputs)})
        bench.bind(inputs)
        head = run_once(bench, outputs)
        shown = media.present(load_tensors(outputs)["output"], prepared)
        written = media.draw(shown, source) if draws else outputs.read_bytes()
    if args.output is not None:
        _write(args.output, written)
    if args.json:
        given.print_json(head, shown=shown.to_json())
        return
    mark = "⚠️" if given.unverified else "✅"
    drawn = f"; the drawing is {args.output}" if draws else f"; all outputs are in {args.output}"
    terminal.text(f"{mark} {given.workload} on {given.target}: {path.name}{drawn if args.output is not None else ''}")
    for line in _lines(shown):
        terminal.text(f"   {line}")
    for caveat in (*shown.caveats, *([f"{given.unverified}."] if given.unverified else [])):
        terminal.text(f"   ⚠️ {caveat}")


def check_output(media: Media | None, output: Path | None, source: str) -> None:
    """Refuse a drawing of what cannot be drawn, before anything runs.

    Raises:
        UsageError: as it says.
    """
    from cross_backend.workloads.media import BoxesMedia

    if output is not None and output.suffix.lower() == DRAWN and not isinstance(media, BoxesMedia):
        what = media.what if media is not None else "tensors"
        raise UsageError(f"--output {output}: only a detector's boxes are drawn, and {source} is {what}.")


def _write(path: Path, data: bytes) -> None:
    try:
        path.write_bytes(data)
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error.strerror}.") from error


def _lines(shown: Shown) -> Iterator[str]:
    """Yield what a terminal shows, one line each."""
    from cross_backend.foreign_text import plain

    if shown.seconds is not None:
        yield f"{shown.seconds:.2f} s of sound"
    if shown.tokens:
        pieces = " ".join(f"[{plain(one.text)}]" for one in shown.tokens[:MOST_TOKENS])
        more = f" and {len(shown.tokens) - MOST_TOKENS} more" if len(shown.tokens) > MOST_TOKENS else ""
        yield f"{len(shown.tokens)} tokens: {pieces}{more}"
    if shown.top:
        width = max(len(plain(row.label)) for row in shown.top)
        for row in shown.top:
            yield f"{plain(row.label):<{width}}  {row.share:6.1%}  {'█' * round(BAR * row.share)}".rstrip()
    if shown.kind == "boxes":
        yield f"{len(shown.boxes)} object{'' if len(shown.boxes) == 1 else 's'} found"
        for box in shown.boxes[:MOST_BOXES]:
            corners = f"{box.x0:.0f},{box.y0:.0f} – {box.x1:.0f},{box.y1:.0f}"
            yield f"{plain(box.label)}  {box.score:.0%}  {corners}"
    if shown.numbers:
        yield ", ".join(f"{number:.6f}" for number in shown.numbers)
    if shown.lengths:
        yield f"states of length {min(shown.lengths):.3g} – {max(shown.lengths):.3g}"
    lengths = [one.length for one in shown.tokens if one.length is not None]
    if lengths:
        yield f"states of length {min(lengths):.3g} – {max(lengths):.3g}"
