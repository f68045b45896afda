"""Compile a model to a blob, and say what became of it: operations, memory, and what falls back to the host and why."""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from atalla.cli import print_json


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument(
        "model",
        metavar="MODEL",
        help="a .pt2 file, a classifier of torchvision by its name there, or path/to/file.py:function or "
        "package.module:function that returns (module, example inputs)",
    )
    parser.add_argument("-o", "--output", type=Path, metavar="FILE", help="the blob (default: <model>.atalla)")
    parser.add_argument("--weights", metavar="FILE", help="a checkpoint of the model (default: seeded random weights)")
    parser.add_argument(
        "--exact", action="store_true", help="never reorder sums: no convolution by Winograd's algorithm"
    )
    parser.add_argument("--bf16", action="store_true", help="multiply by weights in bfloat16 and add in float32")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="of random weights and inputs (default: 0)")
    parser.add_argument("--trust", action="store_true", help="open a .pt2 file although it holds code, pickles say")
    parser.add_argument("--json", action="store_true", help="print one JSON document")


def main(args: argparse.Namespace) -> int:
    """Capture, compile, write, and print the summary."""
    import torch  # noqa: F401  its import takes seconds that are no part of the capture

    import atalla
    from atalla.blob.reader import parse
    from atalla.cli._models import capture
    from atalla.cli._summary import document, print_summary

    began = time.perf_counter()
    name, program = capture(args.model, args.weights, args.seed, trust=args.trust)
    captured = time.perf_counter()
    compiled = atalla.compile(program, exact=args.exact, bf16=args.bf16)
    done = time.perf_counter()
    path = args.output or Path(f"{name}.atalla")
    path.write_bytes(compiled.data)
    listing, seconds = parse(compiled.data), {"capture": captured - began, "compile": done - captured}
    if args.json:
        summary = document(listing, len(compiled.data))
        print_json({"schema": 1, "file": str(path), "seed": args.seed, "seconds": seconds, **summary})
    else:
        times = ", ".join(f"{key} {value:.2f}" for key, value in seconds.items())
        print_summary(path, listing, len(compiled.data), ("seconds", times))
    return 0
