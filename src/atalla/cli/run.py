"""Run a blob with your inputs or seeded random ones; say how long it takes, and with --profile what takes how long.

On the simulated device it runs once, and cycles are what is said.
"""

from __future__ import annotations

import argparse
import functools
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from atalla.cli import UsageError, positive_int, print_json, print_table, read_file, say

if TYPE_CHECKING:
    import torch

    from atalla.blob.reader import Listing

WARM_UP = 5
"""Runs before the timed ones."""
PERCENTILES = (5, 50, 95, 99)


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("file", type=Path, metavar="FILE", help="a blob")
    parser.add_argument(
        "--inputs", type=Path, metavar="FILE", help=".npz or .pt with the inputs, by name or in order (default: random)"
    )
    parser.add_argument("--outputs", type=Path, metavar="FILE", help="write the outputs to this .npz or .pt")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="of random inputs (default: 0)")
    parser.add_argument(
        "--num-runs", type=positive_int, default=100, metavar="N", help=f"timed, after {WARM_UP} others (default: 100)"
    )
    parser.add_argument("--threads", type=positive_int, default=1, metavar="N", help="of the kernels (default: 1)")
    parser.add_argument(
        "--isa",
        metavar="NAME",
        help="avx2, base or reference, which is torch, instruction by instruction (default: the best that is here)",
    )
    parser.add_argument(
        "--executor",
        choices=("fast", "device", "rtl", "reference"),
        help="the kernels; a simulated accelerator, with their arithmetic; the same with its matrix unit in "
        "SystemVerilog, for int8 and bfloat16; torch (default: what --isa says)",
    )
    parser.add_argument(
        "--hardware", type=Path, metavar="FILE", help="of the device, .toml or .json (default: the usual)"
    )
    parser.add_argument(
        "--trust", action="store_true", help="the blob is your own: let it call any operator, custom ones among them"
    )
    parser.add_argument("--profile", action="store_true", help="also time each instruction, in further runs")
    parser.add_argument("--json", action="store_true", help="print one JSON document, with every sample")


def main(args: argparse.Namespace) -> int:
    """Run, time and print."""
    import atalla
    from atalla.cli._tensors import check_ending, print_tensors, random_inputs, read_inputs, write_outputs

    data = read_file(args.file)
    if args.outputs is not None:
        check_ending(args.outputs)
    executor = args.executor
    load = functools.partial(atalla.load, data, threads=args.threads, isa=args.isa, trust=args.trust, executor=executor)
    on_device = args.executor in {"device", "rtl"}
    if args.hardware is not None and not on_device:
        raise UsageError("--hardware is of the device: --executor device or rtl")
    if on_device:
        from atalla.cli._device import run_on_device

        if args.profile:
            raise UsageError("--profile is of the kernels: the device counts cycles of every instruction anyway")
        return run_on_device(args, load)
    loaded = load()
    listing = loaded.listing
    if args.profile and loaded.isa == "reference":
        raise UsageError("--profile needs the C kernels: the reference keeps no times")
    inputs = random_inputs(listing, args.seed) if args.inputs is None else read_inputs(args.inputs, listing)
    samples, processor, outputs = _timed(loaded.bind(inputs), args.num_runs)
    if args.outputs is not None:
        write_outputs(args.outputs, outputs)
    isa = loaded.isa
    profile: list[float] = []
    if args.profile:
        profile = _profiled(load(profile=True), inputs, args.num_runs)
    if args.json:
        known = {"schema": 1, "file": str(args.file), "isa": isa, "threads": args.threads}
        known |= {"latency_ns": samples, "processor_ns": processor}
        print_json({**known, "profile": _rows(listing, profile)} if args.profile else known)
        return 0
    plural = "s" if args.threads > 1 else ""
    say(f"{args.file}: {isa}, {args.threads} thread{plural}, {args.num_runs} runs after {WARM_UP} to warm up")
    print_tensors(listing, inputs, outputs)
    _print_latency(samples, processor)
    if args.profile:
        _print_profile(listing, profile)
    return 0


def _timed(call: Any, runs: int) -> tuple[list[int], list[int], list[Any]]:
    """Return the nanoseconds of each run, those of processors (all threads together), and the outputs of the last."""
    for _ in range(WARM_UP):
        outputs = call()
    samples, processor = [], []
    for _ in range(runs):
        spent, began = time.process_time_ns(), time.perf_counter_ns()
        outputs = call()
        samples.append(time.perf_counter_ns() - began)
        processor.append(time.process_time_ns() - spent)
    return samples, processor, outputs


def _profiled(loaded: Any, inputs: Sequence[torch.Tensor], runs: int) -> list[float]:
    """Return the median nanoseconds of each instruction."""
    import numpy as np

    call, found = loaded.bind(inputs), []
    for i in range(WARM_UP + runs):
        call()
        if i >= WARM_UP:
            found.append(loaded.times_ns())
    return [float(one) for one in np.median(np.array(found), axis=0)]


def _rows(listing: Listing, profile: Sequence[float]) -> list[dict[str, Any]]:
    """Return what the profile says of each instruction, in order."""
    from atalla.run.names import names_of

    found = []
    for number, (one, time_ns) in enumerate(zip(names_of(listing), profile, strict=False)):
        made = {"shape": list(one.shape) if one.dtype else None, "median_ns": time_ns}
        place = {"node": one.node or None, "line": one.line or None}
        found.append({"number": number, "operation": one.operation, **made, **place})
    return found


def _print_latency(samples: Sequence[int], processor: Sequence[int]) -> None:
    import numpy as np

    low, middle, high, highest = np.percentile(np.array(samples) / 1e6, PERCENTILES)
    spent = np.median(processor) / 1e6
    print(f"  latency  median {middle:.3f} ms, p5 {low:.3f}, p95 {high:.3f}, p99 {highest:.3f}; ", end="")
    print(f"processor time {spent:.3f} ms" + ("" if spent > 0.8 * middle else " (the machine is busy with other work)"))


def _print_profile(listing: Listing, profile: Sequence[float]) -> None:
    rows = _rows(listing, profile)
    total = sum(row["median_ns"] for row in rows) or 1.0
    sums: dict[str, list[float]] = {}
    for row in rows:
        sums.setdefault(row["operation"], []).append(row["median_ns"])
    kinds = [("µs", "share", "count", "operation")]
    for name, times in sorted(sums.items(), key=lambda item: -sum(item[1])):
        kinds.append((f"{sum(times) / 1e3:.1f}", f"{sum(times) / total:.1%}", str(len(times)), name))
    print(f"\nBy operation, medians; together {total / 1e6:.3f} ms:")
    print_table(kinds, right=(0, 1, 2))
    table = [("µs", "share", "", "operation", "shape", "node", "from")]
    for row in sorted(rows, key=lambda row: -row["median_ns"]):
        shape = "×".join(map(str, row["shape"])) if row["shape"] else "scalar"
        spent = (f"{row['median_ns'] / 1e3:.1f}", f"{row['median_ns'] / total:.1%}", str(row["number"]))
        table.append((*spent, row["operation"], shape, row["node"] or "", row["line"] or ""))
    print("\nBy instruction:")
    print_table(table, right=(0, 1, 2))
