"""Engines: our session's median against the vendor's own loop on the same file, interleaved in one run, one thread.

python benchmarks/engines.py [--launches 5] [--rounds 20] [--models mobilenet_v3_small digits_cnn] [--targets litert …]

The loop is what the engine's documentation writes: inputs once, then calls. LiteRT has two, of its interpreter and of
its newer compiled model. Each launch is a process of its own that opens both on one file, and times blocks of calls in
turns, in random order; the ratio is that of a comparison (docs/measurement.md). ``litert`` needs its converter:
cross-backend toolchain add litert.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
from _table import show

from cross_backend.artifact import Artifact
from cross_backend.cache import Cache
from cross_backend.exporting.export import ExportSettings, export
from cross_backend.measure.latency import sample
from cross_backend.measure.paired import log_ratio
from cross_backend.measurement import Measurement
from cross_backend.registry import resolve
from cross_backend.tensors import load_tensors, to_numpy
from cross_backend.workloads import find_workload

WITHIN = 0.03
BLOCK_S = 0.1
"""Of calls of one side, in a round."""
MOST_CALLS = 2000
WARM_UP = 10

Call = Callable[[], Any]


def litert_interpreter(path: Path, inputs: list[np.ndarray[Any, Any]]) -> Call:
    """Give the loop of LiteRT's interpreter."""
    from ai_edge_litert.interpreter import Interpreter

    interpreter = Interpreter(str(path), num_threads=1)
    interpreter.allocate_tensors()
    for row, x in zip(interpreter.get_input_details(), inputs, strict=True):
        interpreter.set_tensor(row["index"], x.astype(row["dtype"]))
    return interpreter.invoke


def litert_compiled_model(path: Path, inputs: list[np.ndarray[Any, Any]]) -> Call:
    """Give the loop of LiteRT's compiled model."""
    from ai_edge_litert.compiled_model import CompiledModel
    from ai_edge_litert.hardware_accelerator import HardwareAccelerator
    from ai_edge_litert.options import CpuOptions, Options

    options = Options(hardware_accelerators=HardwareAccelerator.CPU, cpu_options=CpuOptions(num_threads=1))
    model = CompiledModel.from_file(str(path), options=options)
    taken, given = model.create_input_buffers(0), model.create_output_buffers(0)
    for buffer, x in zip(taken, inputs, strict=True):
        buffer.write(x.astype(np.int32) if x.dtype == np.int64 else x)
    return lambda: model.run_by_index(0, taken, given)


def ncnn_loop(path: Path, inputs: list[np.ndarray[Any, Any]]) -> Call:
    """Give ncnn's loop, in float32: an extractor a call."""
    import ncnn

    from cross_backend.backends.ncnn._files import Ports

    ports, net = Ports.read(path), ncnn.Net()
    for name in ("fp16_packed", "fp16_storage", "fp16_arithmetic", "bf16_packed", "bf16_storage"):
        setattr(net.opt, f"use_{name}", False)
    net.opt.num_threads = 1
    net.load_param(str(path / "model.param"))
    net.load_model(str(path / "model.bin"))
    mats = [
        (port.blob, ncnn.Mat(np.ascontiguousarray(x), batch_index=port.batch).clone())
        for port, x in zip(ports.inputs, inputs, strict=True)
    ]

    def call() -> None:
        extractor = net.create_extractor()
        for blob, mat in mats:
            extractor.input(blob, mat)
        for port in ports.outputs:
            extractor.extract(port.blob)

    call.net = net  # type: ignore[attr-defined]  # it owns the memory
    return call


def mnn_loop(path: Path, inputs: list[np.ndarray[Any, Any]]) -> Call:
    """Give MNN's loop, in float32: inputs are copied into the session, whose memory a run overwrites."""
    import MNN

    interpreter = MNN.Interpreter(str(path))
    interpreter.setSessionHint(3, 1)  # smaller tiles of Winograd's convolution, as our float32: two more digits
    session = interpreter.createSession({"backend": "CPU", "precision": "high", "numThread": 1})
    pairs = []
    for index, x in enumerate(inputs):
        array = np.ascontiguousarray(x, np.float32)
        host = MNN.Tensor(array.shape, MNN.Halide_Type_Float, array, MNN.Tensor_DimensionType_Caffe)
        pairs.append((interpreter.getSessionInput(session, f"input_{index}"), host, array))

    def call() -> None:
        for tensor, host, _ in pairs:
            tensor.copyFrom(host)
        interpreter.runSession(session)

    return call


LOOPS: dict[str, dict[str, Callable[[Path, list[np.ndarray[Any, Any]]], Call]]] = {
    "litert": {"interpreter": litert_interpreter, "compiled model": litert_compiled_model},
    "ncnn": {"extractor": ncnn_loop},
    "mnn": {"session": mnn_loop},
}
"""Target → the loops of its vendor; the first is over what our session uses."""


def plain(call: Call, calls: int, seconds: float) -> list[int]:
    """Time calls as a user's script does; nanoseconds."""
    durations, end = [], time.perf_counter_ns() + int(seconds * 1e9)
    for _ in range(calls):
        before = time.perf_counter_ns()
        call()
        after = time.perf_counter_ns()
        durations.append(after - before)
        if after > end:
            break
    return durations


def launch(manifest: Path, target: str, loop: str, rounds: int, seed: int) -> None:
    """Open both on one file, and print the durations of each by round."""
    artifact, resolved = Artifact.read(manifest), resolve(f"{target}?threads=1")
    inputs = load_tensors(artifact.sample_path)["input"]
    chance = random.Random(seed)
    found: dict[str, list[list[int]]] = {"ours": [], "theirs": []}
    calls: dict[str, Call] = {}
    with ExitStack() as stack:
        for who in chance.sample(["ours", "theirs"], 2):
            if who == "ours":
                session = stack.enter_context(resolved.backend.load(artifact, resolved.options))
                calls[who] = session.bind(inputs)
            else:
                calls[who] = LOOPS[target][loop](artifact.payload_path, [to_numpy(x) for x in inputs])
        for call in calls.values():
            for _ in range(WARM_UP):
                call()
        for _ in range(rounds):
            for who in chance.sample(["ours", "theirs"], 2):
                mine = who == "ours"
                ns = sample(calls[who], MOST_CALLS, 1, BLOCK_S).ns if mine else _theirs(calls[who])
                found[who].append(ns)
    print("\n" + json.dumps(found), flush=True)


def _theirs(call: Call) -> list[int]:
    call()
    return plain(call, MOST_CALLS, BLOCK_S)


def row(model: str, artifact: Artifact, target: str, loop: str, launches: int, rounds: int) -> tuple[list[str], bool]:
    """Give a row of the table, and whether the two are further apart than chance explains."""
    both: dict[str, list[tuple[int, ...]]] = {"ours": [], "theirs": []}
    for seed in range(launches):
        command = [sys.executable, __file__, "--launch", str(artifact.manifest_path), target, loop, str(rounds)]
        done = subprocess.run([*command, str(seed)], capture_output=True, text=True, check=False)
        if done.returncode:
            raise SystemExit(f"{target} failed: {done.stderr.strip()[-400:]}")
        for who, durations in json.loads(done.stdout.splitlines()[-1]).items():
            both[who] += map(tuple, durations)
    ours, theirs = (Measurement("latency", "ns", tuple(one), (rounds,) * launches) for one in both.values())
    found = log_ratio(ours, theirs)
    assert found is not None, "six rounds at least"
    ratio = found.ratio
    medians = (f"{one.median / 1e6:.4g}" for one in (ours, theirs))
    shown = [f"{target} on {model}", loop, *medians, f"{ratio.value:.3f}", f"{ratio.low:.3f} – {ratio.high:.3f}"]
    is_same = loop == next(iter(LOOPS[target]))
    return shown, ratio.low > 1 + WITHIN or (is_same and ratio.high < 1 / (1 + WITHIN))


def main() -> int:
    """Print the table; 1 if a session is further than 3 % from the vendor's loop with 95 % confidence."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--launches", type=int, default=5, help="processes of each row")
    parser.add_argument("--rounds", type=int, default=20, help="blocks of each side in a process, at least 6")
    parser.add_argument("--models", nargs="+", default=["mobilenet_v3_small", "digits_cnn"])
    parser.add_argument("--targets", nargs="+", default=list(LOOPS), choices=list(LOOPS))
    parser.add_argument(
        "--launch", nargs=5, metavar=("MANIFEST", "TARGET", "LOOP", "ROUNDS", "SEED"), help=argparse.SUPPRESS
    )
    asked = parser.parse_args()
    if asked.launch:
        manifest, target, loop, rounds, seed = asked.launch
        launch(Path(manifest), target, loop, int(rounds), int(seed))
        return 0
    rows, apart = [], False
    for model in asked.models:
        _, exported = export(find_workload(model), asked.targets, ExportSettings(Cache()))
        for one in exported:
            if one.artifact is None:
                print(f"{one.text} on {model}: {one.reason}")
                continue
            for loop in LOOPS[one.text]:
                shown, off = row(model, one.artifact, one.text, loop, asked.launches, max(asked.rounds, 6))
                rows.append(shown)
                apart |= off
    headers = ("ours", "theirs", "ours ms", "theirs ms", "ratio", "95 % interval")
    show(
        f"Our session beside the vendor's loop, {asked.launches} processes each, one thread",
        headers,
        rows,
        name="engines",
    )
    return 1 if apart else 0


if __name__ == "__main__":
    sys.exit(main())
