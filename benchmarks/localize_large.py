"""Localize one fault in the middle of a large network: wall time and lowerings, beside the bound.

python benchmarks/localize_large.py [--model resnet50] [--targets xnnpack,cpu,openvino] [--at 30]

The weights of one convolution get their output channels in reverse. The whole wrong program is lowered first and not
counted, as a comparison has lowered it before anyone asks.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any

import torch
from seeded_faults import copied

from cross_backend.cache import Cache
from cross_backend.comparison.settings import Settings
from cross_backend.exporting.export import ExportSettings, export
from cross_backend.localization.localize import localize
from cross_backend.program.captured import Captured
from cross_backend.program.writing import write_part
from cross_backend.tensors import load_tensors
from cross_backend.workloads import Workload, find_workload

MOST_S = 90.0
"""Longest search on two cores."""


def planted(captured: Captured, at: int, folder: Path) -> tuple[Captured, str]:
    """Return the program with one convolution's output channels reversed, and that convolution's name."""
    program: Any = copied(captured.program())
    node = [one for one in program.graph.nodes if "aten.conv2d" in str(one.target)][at]
    weight = program.state_dict[program.graph_signature.inputs_to_parameters[node.args[1].name]]
    with torch.no_grad():
        weight.copy_(weight.flip(0))
    specs = {"inputs": captured.inputs, "outputs": captured.outputs}
    workload = Workload(captured.workload, program.graph_module)
    return write_part(program, workload, folder, specs, load_tensors(captured.sample_path)), node.name


def main() -> int:
    """Print a row a target."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--model", default="resnet50")
    parser.add_argument("--targets", default="xnnpack,cpu,openvino")
    parser.add_argument("--at", type=int, default=30, metavar="N", help="number of the convolution")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    well = True
    with tempfile.TemporaryDirectory() as scratch:
        cache, folder = Cache(Path(scratch) / "cache"), Path(scratch) / "wrong"
        folder.mkdir()
        captured, _ = export(find_workload(args.model), [], ExportSettings(cache))
        wrong, name = planted(captured, args.at, folder)
        for target in args.targets.split(","):
            export(wrong, [target], ExportSettings(cache))
            found = localize(captured, target, cache=cache, settings=Settings(), lowered=wrong)
            named = [one.node for one in found.operators]
            is_found = named == [name] and found.is_sure
            well &= is_found and found.seconds <= MOST_S and found.lowerings <= found.bound
            print(
                f"{args.model} on {target}: planted in {name}, found {', '.join(named)}; {found.seconds:.0f} s, "
                f"{found.lowerings} lowerings of at most {found.bound}, {found.count} operators"
            )
    return 0 if well else 1


if __name__ == "__main__":
    sys.exit(main())
