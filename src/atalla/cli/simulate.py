"""Simulate a model on a device, without running it: cycles of each layer, what bounds it, and where the time goes."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from atalla.cli import UsageError, check_file, print_json, print_table, read_file, say, size

if TYPE_CHECKING:
    from atalla.device import Simulation
    from atalla.report.layers import Layer
    from atalla.run.device import DryProgram


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("model", metavar="MODEL", help="a blob, or what 'atalla compile' takes")
    parser.add_argument(
        "--hardware", type=Path, metavar="FILE", help="of the device, .toml or .json (default: the usual)"
    )
    parser.add_argument("--trace", type=Path, metavar="FILE", help="write all events, as JSON for Perfetto")
    parser.add_argument(
        "--report",
        type=Path,
        metavar="FILE",
        help="write one offline HTML file: timeline, roofline, layers, and sliders that try other devices",
    )
    parser.add_argument(
        "--precision",
        choices=("fp32", "bf16"),
        help="of a model that is compiled here (default: fp32); int8 comes as a quantised program or blob",
    )
    parser.add_argument("--seed", type=int, metavar="N", help="of random weights and inputs (default: 0)")
    parser.add_argument("--trust", action="store_true", help="the file is your own: it may hold code, and custom calls")
    parser.add_argument("--json", action="store_true", help="print one JSON document")


def main(args: argparse.Namespace) -> int:
    """Simulate, write what was asked for, and print the layers."""
    from atalla.device import Hardware, read_hardware
    from atalla.report.layers import layers
    from atalla.run.device import DryProgram

    _check_report(args.report)
    hardware = Hardware() if args.hardware is None else read_hardware(args.hardware)
    name, data = _blob(args)
    program = DryProgram(data, trust=args.trust)
    simulation = program.simulate(hardware, events=args.trace is not None or args.report is not None)
    if args.trace is not None:
        from atalla.report.trace import trace

        args.trace.write_text(json.dumps(trace(simulation), allow_nan=False))
    if args.report is not None:
        _write_report(args.report, name, program, simulation)
    rows = layers(simulation)
    if args.json:
        from atalla.cli._device import document

        found = document(simulation)
        for row, layer in zip(found["instructions"], rows, strict=True):
            row |= {
                "share": layer.share,
                "utilisation": layer.utilisation,
                "stall": layer.stall,
                "bound": layer.bound,
                "analytic_cycles": layer.analytic,
                "analytic_error": layer.error,
            }
        total = sum(layer.analytic or 0 for layer in rows)
        print_json({"schema": 1, "model": name, "executor": "device", "analytic_cycles": total, **found})
        return 0
    say(f"{name}: {hardware.name}, simulated without data")
    print(
        f"  simulated: {simulation.cycles:,} cycles, an estimate of {simulation.milliseconds:.3f} ms at "
        f"{hardware.clock_mhz} MHz; {simulation.utilisation:.1%} of the matrix unit, {simulation.macs:,} products, "
        f"{size(simulation.in_bytes)} in, {size(simulation.out_bytes)} out"
    )
    _print_analytic(rows, simulation.cycles)
    if simulation.calls_host:
        print("  the host computes a part of it, whose time is not in these cycles")
    _print_layers(rows)
    written = [str(path) for path in (args.trace, args.report) if path is not None]
    if written:
        say(f"\nwritten: {', '.join(written)}")
    return 0


def _check_report(path: Path | None) -> None:
    """Refuse a place where no file can be, before anything is worked out.

    Raises:
        UsageError: it is one.
    """
    if path is None:
        return
    if not path.parent.is_dir():
        raise UsageError(f"cannot write {path}: there is no folder {path.parent}")
    if path.exists() and not path.is_file():
        raise UsageError(f"cannot write {path}: it is not a file")


def _write_report(path: Path, name: str, program: DryProgram, simulation: Simulation) -> None:
    from atalla.report.files import replace_file
    from atalla.report.page import page
    from atalla.report.what_if import explore

    replace_file(path, page(name, simulation, explore(program, simulation.hardware, _show_progress)))


def _show_progress(done: int, of: int) -> None:
    """Tell on stderr how many devices were tried: in place on a terminal, else in a few lines."""
    text = f"report: {done} of {of} devices"
    if sys.stderr.isatty():
        print(f"\r{text}", end="\n" if done == of else "", file=sys.stderr, flush=True)
    elif done % 40 == 0 or done == of:
        print(text, file=sys.stderr, flush=True)


def _blob(args: argparse.Namespace) -> tuple[str, bytes]:
    """Return a name, and the blob: the file's, or what the model is compiled to."""
    from atalla.isa.format import MAGIC

    path = Path(args.model)
    check_file(path)
    if path.is_file():
        with path.open("rb") as file:
            begin = file.read(len(MAGIC))
        if begin == MAGIC or not args.model.endswith((".pt2", ".py")):
            for option in ("precision", "seed"):
                if getattr(args, option) is not None:
                    raise UsageError(f"--{option} does not go with {path}, which is compiled already")
            return path.name, read_file(path)
    import torch  # noqa: F401  first, as its import changes what can be captured

    import atalla
    from atalla.cli._models import capture

    name, program = capture(args.model, None, args.seed or 0, trust=args.trust)
    return name, bytes(atalla.compile(program, bf16=args.precision == "bf16").data)


def _print_analytic(rows: tuple[Layer, ...], cycles: int) -> None:
    total = sum(layer.analytic or 0 for layer in rows)
    error = f" ({total / cycles - 1:+.1%})" if cycles else ""
    print(f"  analytic model: {total:,} cycles{error}")


def _print_layers(rows: tuple[Layer, ...]) -> None:
    header = ("", "operation", "node", "cycles", "share", "used", "in", "out", "stalls", "bound", "analytic", "differs")
    table: list[tuple[str, ...]] = [header]
    for layer in rows:
        one = layer.counters
        if one.is_host:
            table.append((str(one.number), one.operation, one.node, "host", *[""] * 8))
            continue
        moved = (size(one.in_bytes), size(one.out_bytes))
        spent = (f"{one.cycles:,}", f"{layer.share:.1%}", f"{layer.utilisation:.1%}" if one.busy.matrix else "")
        analytic = (layer.bound or "", f"{layer.analytic:,}", f"{layer.error or 0.0:+.1%}")
        table.append((str(one.number), one.operation, one.node, *spent, *moved, layer.stall or "", *analytic))
    print("\nLayers, simulated:")
    print_table(table, right=(0, 3, 4, 5, 6, 7, 10, 11))
