"""Run a blob on the simulated device step by step: a prompt, or commands from a pipe or a file; 'help' lists them."""

from __future__ import annotations

import argparse
import importlib
from pathlib import Path
from typing import TYPE_CHECKING

from atalla.cli import UsageError, read_file

if TYPE_CHECKING:
    from atalla.device import MatrixUnit


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("file", type=Path, metavar="BLOB", help="a blob")
    parser.add_argument(
        "--hardware", type=Path, metavar="FILE", help="of the device, .toml or .json (default: the usual)"
    )
    parser.add_argument(
        "--inputs", type=Path, metavar="FILE", help=".npz or .pt with the inputs, by name or in order (default: random)"
    )
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="of random inputs (default: 0)")
    parser.add_argument("--isa", metavar="NAME", help="avx2, base and so on: whose arithmetic (default: the best here)")
    parser.add_argument(
        "--against",
        choices=("fast", "reference"),
        default="fast",
        help="what is right: the kernels, bit by bit, or torch, floats within a thousandth (default: fast)",
    )
    parser.add_argument(
        "--unit",
        metavar="MODULE:FUNCTION",
        help="a matrix unit of your own: a function that returns an atalla.device.MatrixUnit",
    )
    parser.add_argument(
        "--break",
        dest="breaks",
        action="append",
        default=[],
        metavar="WHERE",
        help="an instruction's number, an operation, or mismatch, as 'break' takes it; as often as you like",
    )
    parser.add_argument("--run", type=Path, metavar="FILE", help="commands, one a line (default: from standard input)")
    parser.add_argument(
        "--trust", action="store_true", help="the blob is your own: let it call any operator, custom ones among them"
    )


def main(args: argparse.Namespace) -> int:
    """Load, and do what the commands say."""
    from atalla.blob.verify import verify
    from atalla.cli._prompt import Prompt
    from atalla.cli._tensors import random_inputs, read_inputs
    from atalla.device import DeviceOptions, Hardware, read_hardware
    from atalla.run.debugger import Debugger

    data = read_file(args.file)
    listing = verify(data, trust=True)  # whom it may call is for the debugger to say
    inputs = random_inputs(listing, args.seed) if args.inputs is None else read_inputs(args.inputs, listing)
    hardware = Hardware() if args.hardware is None else read_hardware(args.hardware)
    options = DeviceOptions(hardware, unit=None if args.unit is None else _unit(args.unit), poison=True)
    debugger = Debugger(data, inputs, options, isa=args.isa, against=args.against, trust=args.trust)
    lines = read_file(args.run).decode(errors="replace").splitlines() if args.run is not None else None
    prompt = Prompt(debugger, str(args.file))
    for where in args.breaks:
        if not prompt.set_break(where):
            raise UsageError(f"--break {where}: it is an instruction's number, an operation, or mismatch")
    prompt.use(lines)
    return 0


def _unit(name: str) -> MatrixUnit:
    """Return a matrix unit of somebody else.

    Raises:
        UsageError: it is not there.
    """
    from atalla.device import MatrixUnit

    module, _, function = name.partition(":")
    try:
        found = getattr(importlib.import_module(module), function)()
    except Exception as error:
        raise UsageError(f"--unit {name}: {type(error).__name__}: {error}") from error
    if not isinstance(found, MatrixUnit):
        raise UsageError(f"--unit {name}: it returned no MatrixUnit")
    return found
