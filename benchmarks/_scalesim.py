"""SCALE-Sim 3 in an environment of its own: products of matrices in, cycles and utilisation out, kept once known."""

from __future__ import annotations

import csv
import io
import json
import subprocess
import sys
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import platformdirs

if TYPE_CHECKING:
    from _products import Product

PINS = ("scalesim==3.0.0", "numpy==2.3.5", "tqdm==4.67.1")
"""All that a run imports. NumPy 2.4 made an error of ``int(array)``, by which SCALE-Sim counts."""
WHOLE = """
import sys
from scalesim.scale_sim import scalesim
config, topology, layout, folder = sys.argv[1:]
simulation = scalesim(True, False, config, topology, layout, input_type_gemm=True)
"""
"""What ``python -m scalesim.scale -i gemm`` does, without the traces that it writes whatever ``-s`` says."""
INSTANT = """
import scalesim.simulator
from scalesim.memory.double_buffered_scratchpad_mem import double_buffered_scratchpad

class Memory(double_buffered_scratchpad):
    def service_memory_requests(self, activations, weights, sums):
        assert len(activations) == len(weights) == len(sums)
        self.total_cycles = len(sums) - 1
        self.traces_valid = True

    def nothing(self):
        return 0, 0, 0

    get_ifmap_dram_details = get_filter_dram_details = get_ofmap_dram_details = nothing

    def get_ifmap_sram_start_stop_cycles(self):
        return 0, 0

    get_filter_sram_start_stop_cycles = get_ofmap_sram_start_stop_cycles = get_ifmap_sram_start_stop_cycles

class Layer(scalesim.simulator.layer_sim):
    def __init__(self):
        super().__init__()
        self.set_memory_system(Memory())

scalesim.simulator.layer_sim = Layer
"""
"""The array's requests, a line a cycle, go to a memory that answers in the same cycle, so all of them are counted, and
nothing else is done. SCALE-Sim's own memory looks at each address, and then, in the mode ``CALC``, never waits."""
RUN = "simulation.run_scale(folder)"
MEMORY_KIB = 256 * 1024
"""Of each of its three memories: all operands of a product fit."""
CONFIG = f"""
[general]
run_name = run
[architecture_presets]
ArrayHeight = {{size}}
ArrayWidth = {{size}}
IfmapSramSzkB = {MEMORY_KIB}
FilterSramSzkB = {MEMORY_KIB}
OfmapSramSzkB = {MEMORY_KIB}
IfmapOffset = 0
FilterOffset = 10000000
OfmapOffset = 20000000
Dataflow = ws
ReadRequestBuffer = 32
WriteRequestBuffer = 32
[layout]
IfmapCustomLayout = False
IfmapSRAMBankBandwidth = 10
IfmapSRAMBankNum = 10
IfmapSRAMBankPort = 2
FilterCustomLayout = False
FilterSRAMBankBandwidth = 10
FilterSRAMBankNum = 10
FilterSRAMBankPort = 2
[sparsity]
SparsitySupport = false
[run_presets]
InterfaceBandwidth = CALC
UseRamulatorTrace = False
"""
"""Weight-stationary. ``CALC``: it works out which bandwidth is needed, and never waits for memory."""


@dataclass(frozen=True)
class Report:
    """A line of ``COMPUTE_REPORT.csv``."""

    cycles: int
    """``Total Cycles``: the number of the last one, the first of which is 0; what is loaded before is not in it."""
    stalls: int
    """``Stall Cycles``, waiting for memory."""
    utilisation: float
    """``Overall Util %``: products of the layer in a hundred that the array could have made in those cycles."""
    mapping: float
    """``Mapping Efficiency %``: elements of the array that hold a weight, mean of all folds."""


def parse(text: str) -> list[Report]:
    """Read ``COMPUTE_REPORT.csv``, whose lines end with a comma."""
    rows = csv.DictReader(io.StringIO(text), skipinitialspace=True)
    return [
        Report(
            int(row["Total Cycles"]),
            int(row["Stall Cycles"]),
            float(row["Overall Util %"]),
            float(row["Mapping Efficiency %"]),
        )
        for row in rows
    ]


def folder() -> Path:
    """Return where the environment, and what it found, are kept."""
    return Path(platformdirs.user_cache_dir("cross-backend", appauthor=False)) / "benchmarks" / PINS[0]


def environment() -> Path:
    """Return the environment's Python; make it where there is none."""
    there = folder() / f"python-{sys.version_info.major}.{sys.version_info.minor}"
    python, ready = there / "bin" / "python", there / "ready"
    if not ready.is_file():
        print(f"installing {' '.join(PINS)} into {there}", file=sys.stderr)
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(there)], check=True)
        # The other requirements of SCALE-Sim (pandas, Matplotlib, Numba …) are for what is not asked of it here.
        subprocess.run([str(python), "-m", "pip", "install", "--quiet", "--no-deps", *PINS], check=True)
        ready.touch()
    return python


def simulate(product: Product, size: int, *, whole: bool = False) -> Report:
    """Return what SCALE-Sim says of one product on ``size`` × ``size`` elements; what was found is kept.

    Args:
        product: what is multiplied.
        size: of the array.
        whole: with SCALE-Sim's own memory, at 0.1 ms a cycle.
    """
    kind = "whole-" if whole else ""
    kept = folder() / f"{kind}{size}-{product.rows}-{product.depth}-{product.columns}.json"
    if kept.is_file():
        return Report(**json.loads(kept.read_text()))
    python = environment()
    print(f"SCALE-Sim, {size} × {size}: {product}", file=sys.stderr)
    with tempfile.TemporaryDirectory() as name:
        there = Path(name)
        (there / "config").write_text(CONFIG.format(size=size))
        topology = f"Layer,M,N,K,\nproduct,{product.rows},{product.columns},{product.depth},\n"
        (there / "topology.csv").write_text(topology)
        (there / "layout.csv").write_text("Layer,\n")
        files = [str(there / file) for file in ("config", "topology.csv", "layout.csv", "out")]
        script = "\n".join((WHOLE, *(() if whole else (INSTANT,)), RUN))
        subprocess.run([str(python), "-c", script, *files], check=True, stdout=sys.stderr)
        (report,) = parse((there / "out" / "run" / "COMPUTE_REPORT.csv").read_text())
    written = kept.with_suffix(".new")
    written.write_text(json.dumps(asdict(report)))
    written.replace(kept)
    return report
