"""Fidelity: our median against the vendor's own tool on the same file, one thread each, turn by turn.

python benchmarks/fidelity.py [--turns 4] [--seconds 2] [--models mobilenet_v3_small]

OpenVINO's tool is ``benchmark_app`` of its package; beside it, as for ONNX Runtime, stands the loop that its users
write. ``benchmark_app`` prints what the request says of itself, which begins and ends inside of the call: what the
caller's thread waits to be woken is left out, 0.1 to 0.2 ms on a virtual machine. Each turn starts both again, who
begins changes, and the figure is the geometric mean of the turns' ratios with Student's interval. The documented run
is ``--turns 15 --seconds 5 --models mobilenet_v3_small resnet50``, 25 minutes.
"""

from __future__ import annotations

import argparse
import re
import statistics
import subprocess
import sys
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from _table import show

from cross_backend.artifact import Artifact
from cross_backend.cache import Cache
from cross_backend.comparison.benches import open_bench
from cross_backend.comparison.settings import Settings
from cross_backend.comparison.warm_up import warm_up
from cross_backend.exporting.export import Exported, ExportSettings, export
from cross_backend.measure.paired import log_ratio
from cross_backend.measurement import Measurement
from cross_backend.registry import Resolved
from cross_backend.workloads import find_workload

WITHIN = 0.03
LOOP = """
for _ in range(20):
    call()
durations, end = [], time.perf_counter() + float(sys.argv[2])
while time.perf_counter() < end:
    started = time.perf_counter()
    call()
    durations.append(time.perf_counter() - started)
print("Median:", statistics.median(durations) * 1e3, "ms")
"""
OPENVINO_LOOP = """
import statistics, sys, time
import numpy, openvino
settings = {"INFERENCE_PRECISION_HINT": "f32", "INFERENCE_NUM_THREADS": 1, "PERFORMANCE_HINT": "LATENCY"}
compiled = openvino.Core().compile_model(sys.argv[1], "CPU", settings)
request = compiled.create_infer_request()
for one in compiled.inputs:
    request.set_tensor(one, openvino.Tensor(numpy.random.default_rng(0).random(list(one.shape), numpy.float32)))
call = request.infer
"""
ONNXRUNTIME_LOOP = """
import statistics, sys, time
import numpy, onnxruntime
options = onnxruntime.SessionOptions()
options.intra_op_num_threads = 1
session = onnxruntime.InferenceSession(sys.argv[1], options, providers=["CPUExecutionProvider"])
feed = {one.name: numpy.random.default_rng(0).random(one.shape, numpy.float32) for one in session.get_inputs()}
call = lambda: session.run(None, feed)
"""


def benchmark_app(artifact: Artifact, seconds: int) -> float:
    """Give the median of OpenVINO's tool, milliseconds."""
    tool = Path(sys.executable).with_name("benchmark_app")
    model = artifact.payload_path / "model.xml"
    asked = [
        "-hint",
        "none",
        "-nstreams",
        "1",
        "-nthreads",
        "1",
        "-api",
        "sync",
        "-infer_precision",
        "f32",
        "-t",
        str(seconds),
    ]
    return _median_ms([str(tool), "-m", str(model), *asked])


def openvino_loop(artifact: Artifact, seconds: int) -> float:
    """Give the median of OpenVINO's own loop, milliseconds."""
    model = artifact.payload_path / "model.xml"
    return _median_ms([sys.executable, "-c", OPENVINO_LOOP + LOOP, str(model), str(seconds)])


def onnxruntime_loop(artifact: Artifact, seconds: int) -> float:
    """Give the median of ONNX Runtime's own loop, milliseconds."""
    return _median_ms([sys.executable, "-c", ONNXRUNTIME_LOOP + LOOP, str(artifact.payload_path), str(seconds)])


def _median_ms(command: list[str]) -> float:
    # Linux shares the processors out by session before it does by process: ours has one of its own, so theirs, too.
    done = subprocess.run(command, capture_output=True, text=True, check=False, start_new_session=True)
    found = re.search(r"Median:\s+([\d.]+) ms", done.stdout)
    if done.returncode or found is None:
        raise SystemExit(f"{' '.join(command[:1])} failed: {(done.stderr or done.stdout).strip()[-400:]}")
    return float(found[1])


Tool = Callable[[Artifact, int], float]
VENDORS: dict[str, dict[str, Tool]] = {
    "openvino": {"benchmark_app": benchmark_app, "its own loop": openvino_loop},
    "onnxruntime.cpu": {"its own loop": onnxruntime_loop},
}


def ours(artifact: Artifact, resolved: Resolved, seconds: int, cache: Cache) -> float:
    """Give our median, milliseconds: a fresh worker, warmed up until it is steady, then timed as long."""
    settings = Settings()
    with ExitStack() as stack:
        bench, _ = open_bench(artifact.payload_path, str(resolved.target), settings, cache, stack)
        warm_up(bench)
        return float(statistics.median(bench.sample(1_000_000, 0, seconds).ns)) / 1e6


def row(
    model: str, exported: Exported, tool: str, turns: int, seconds: int, cache: Cache
) -> tuple[tuple[str, ...], bool]:
    """Give a row of the table, and whether the two are further apart than chance explains."""
    if exported.artifact is None or exported.resolved is None:
        raise SystemExit(f"{exported.text} could not be lowered: {exported.reason}")
    artifact, resolved = exported.artifact, exported.resolved
    theirs = VENDORS[resolved.backend.name][tool]
    medians: dict[str, list[float]] = {"ours": [], "theirs": []}
    for turn in range(turns):
        for who in ("ours", "theirs") if turn % 2 else ("theirs", "ours"):
            mine = who == "ours"
            medians[who].append(ours(artifact, resolved, seconds, cache) if mine else theirs(artifact, seconds))
    first, second = (
        Measurement("latency", "ns", tuple((ms * 1e6,) for ms in one), (1,) * turns) for one in medians.values()
    )
    found = log_ratio(first, second)
    assert found is not None, "three turns at least"
    ratio = found.ratio
    shown = (
        f"{resolved.backend.name} on {model}",
        tool,
        *(f"{statistics.median(one):.3f}" for one in medians.values()),
        f"{ratio.value:.3f}",
        f"{ratio.low:.3f} – {ratio.high:.3f}",
    )
    return shown, ratio.low > 1 + WITHIN or ratio.high < 1 / (1 + WITHIN)


def main() -> int:
    """Print the table; 1 if a median is further than 3 % from the vendor's with 95 % confidence."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=4, help="of each, at least 3")
    parser.add_argument("--seconds", type=int, default=2, help="of calls in a turn")
    parser.add_argument("--models", nargs="+", default=["mobilenet_v3_small"])
    asked = parser.parse_args()
    cache, rows, apart = Cache(), [], False
    for model in asked.models:
        _, exported = export(find_workload(model), list(VENDORS), ExportSettings(cache))
        for one, tools in zip(exported, VENDORS.values(), strict=True):
            for tool in tools:
                shown, off = row(model, one, tool, max(asked.turns, 3), asked.seconds, cache)
                rows.append(shown)
                apart |= off
    headers = ("ours", "theirs", "ours ms", "theirs ms", "ratio", "95 % interval")
    show(
        f"Our median beside the vendor's, {asked.turns} turns of {asked.seconds} s each", headers, rows, name="fidelity"
    )
    return 1 if apart else 0


if __name__ == "__main__":
    sys.exit(main())
