"""Atalla's kernels beside the float32 runtimes: one process a model, all of them in turn, round after round.

python benchmarks/atalla_latency.py [--models NAME …] [--threads 1 2] [--rounds 30] [--rivals cpu …] [--precision int8]

In a round each runtime has as many calls as fill ``--seconds``, in an order that changes; a ratio is the median over
the rounds of rival / atalla, with its 95 % interval. Processor time counts all threads of the process and is what a
noisy machine leaves alone; wall time is what users wait for. ``eager`` is PyTorch in the better of its two layouts.
With ``--precision int8`` Atalla and XNNPACK run the same quantised program, with ``bf16`` Atalla and OpenVINO multiply
in bfloat16; the others keep float32. ``floor``, of float32 on one thread, is what the model's multiplications would
take if all were as fast as a product that stays in the caches, in the same rounds: nothing for memory and exponentials.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from _table import show

sys.path.append(sys.path.pop(0))  # this file has the name of the package that it measures

MODELS = ("mobilenet_v3_small", "mobilenet_v3_large", "resnet50", "bert_base", "whisper_tiny")
RIVALS = ("xnnpack", "cpu", "openvino", "eager", "eager (channels last)", "compile")
COLUMNS = {"xnnpack": "XNNPACK", "cpu": "ONNX Runtime", "openvino": "OpenVINO"}
"""Rivals of the last table."""
NARROW = {"fp32": set(), "bf16": {"atalla", "openvino"}, "int8": {"atalla", "xnnpack"}}
"""Precision → those that run in it; the others keep float32."""
GOALS: dict[str, dict[str, dict[str, tuple[float, float | None]]]] = {
    "fp32": {
        "mobilenet_v3_small": {"avx512": (1.5, 1.25), "avx2": (1.5, 1.25)},
        "mobilenet_v3_large": {"avx512": (1.35, 1.2), "avx2": (1.3, 1.15)},
        "resnet50": {"avx512": (1.3, 1.25), "avx2": (1.7, 1.15)},
        "bert_base": {"avx512": (1.2, 1.15), "avx2": (1.1, 1.1)},
        "whisper_tiny": {"avx512": (1.5, 1.15), "avx2": (1.3, 1.1)},
    },
    "bf16": {},
    "int8": {
        "mobilenet_v3_large": {"avx512": (1.2, None), "avx2": (1.2, None)},
        "resnet50": {"avx512": (1.1, None), "avx2": (1.1, None)},
    },
}
"""Times that Atalla is to be faster at one thread, than XNNPACK and than the fastest rival of the run."""


def goal_of(model: str, precision: str, isa: str) -> tuple[float | None, float | None]:
    """Return what it is to be faster by than XNNPACK, and than the best; AVX-512's goals are those of VNNI and AMX."""
    return GOALS[precision].get(model, {}).get("avx2" if isa == "avx2" else "avx512", (None, None))


Call = Callable[[], Any]
SIDE, TIMES = 192, 16
"""Rows, depth and columns of the floor's product, and how often one call makes it."""


def _sessions(
    model: str, rivals: list[str], threads: int, stack: ExitStack, *, precision: str
) -> tuple[dict[str, Call], str, float]:
    """Open every runtime on the same captured program and the same inputs; name Atalla's instruction set.

    Last, how many times the floor's product the model's multiplications are.
    """
    import torch

    import atalla
    from atalla.run.device import simulate
    from cross_backend.cache import Cache
    from cross_backend.exporting.export import ExportSettings, export
    from cross_backend.program.pt2 import load_pt2
    from cross_backend.tensors import load_tensors
    from cross_backend.workloads import find_workload

    torch.set_num_threads(threads)
    lowered = ["atalla", *(rival for rival in rivals if not rival.startswith("eager"))]
    targets = [f"{name}?precision={precision}" if name in NARROW[precision] else name for name in lowered]
    captured, (own, *exported) = export(find_workload(model), targets, ExportSettings(Cache()))
    inputs = load_tensors(captured.sample_path)["input"]
    program = load_pt2(captured.folder / captured.program_name)
    given = [torch.from_numpy(one) for one in inputs]
    if own.artifact is None:
        raise SystemExit(f"Atalla cannot take {model}: {own.reason}")
    loaded = atalla.load(own.artifact.payload_path, threads=threads, trust=True)
    calls: dict[str, Call] = {"atalla": loaded.bind(given)}
    for rival, row in zip(lowered[1:], exported, strict=True):
        if row.artifact is None or row.resolved is None:
            print(f"{rival} cannot take {model}: {row.reason}", file=sys.stderr)
            continue
        backend = row.resolved.backend
        asked = {"threads": str(threads)} if "threads" in backend.options else {}
        options = backend.parse_options({**row.resolved.target.options, **asked})
        calls[rival] = stack.enter_context(backend.load(row.artifact, options)).bind(inputs)
    for rival in rivals:
        if rival.startswith("eager"):
            calls[rival] = _eager(program, given, channels_last="channels last" in rival)
    times = 0.0
    if precision == "fp32" and threads == 1:
        calls["floor"] = _best_product()
        times = simulate(own.artifact.payload_path.read_bytes()).macs / (TIMES * SIDE**3)
    return calls, loaded.isa, times


def _best_product() -> Call:
    """Return products that stay in the caches, by Atalla on one thread."""
    import torch

    import atalla

    torch.manual_seed(0)
    x, layer = torch.randn(SIDE, SIDE), torch.nn.Linear(SIDE, SIDE, bias=False)
    program = torch.export.export(torch.nn.Sequential(*TIMES * [layer]), (x,))
    return atalla.load(atalla.compile(program).data, threads=1).bind((x,))


def _eager(program: Any, given: list[Any], *, channels_last: bool) -> Call:
    import torch

    module = program.module()
    if channels_last:
        module = module.to(memory_format=torch.channels_last)
        given = [one.to(memory_format=torch.channels_last) if one.dim() == 4 else one for one in given]

    def call() -> Any:
        with torch.inference_mode():
            return module(*given)

    return call


def _block(call: Call, count: int) -> tuple[float, float]:
    """Give seconds of wall and of processor time of one call."""
    call()  # whoever ran before left its own data in the caches
    wall, cpu = time.perf_counter(), time.process_time()
    for _ in range(count):
        call()
    return (time.perf_counter() - wall) / count, (time.process_time() - cpu) / count


def measure(
    model: str, threads: int, rivals: list[str], rounds: int, seconds: float, *, precision: str
) -> tuple[dict[str, list[Any]], str]:
    """Give, for each runtime, (wall, processor) seconds of a call in every round, and Atalla's instruction set."""
    with ExitStack() as stack:
        calls, isa, times = _sessions(model, rivals, threads, stack, precision=precision)
        counts = {}
        for name, call in calls.items():
            for _ in range(3):
                call()
            counts[name] = max(1, round(seconds / max(_block(call, 2)[0], 1e-6)))
        found: dict[str, list[Any]] = {name: [] for name in calls}
        shuffle = random.Random(0)
        for _ in range(rounds):
            order = list(calls)
            shuffle.shuffle(order)
            for name in order:
                found[name].append(_block(calls[name], counts[name]))
        if "floor" in found:
            found["floor"] = [(wall * times, cpu * times) for wall, cpu in found["floor"]]
        return found, isa


def _interval(values: list[float]) -> str:
    from cross_backend.measure.quantiles import median_interval

    low, high = median_interval(values)
    return f"{statistics.median(values):.2f} ({low:.2f} – {high:.2f})"


def table(model: str, threads: int, found: dict[str, list[Any]], isa: str, *, precision: str) -> None:
    """Print one table."""
    rows = []
    own = found["atalla"]
    of_xnnpack, of_best = goal_of(model, precision, isa) if threads == 1 else (None, None)
    ranked = sorted(found.items(), key=lambda item: statistics.median(cpu for _, cpu in item[1]))
    best = next((name for name, _ in ranked if name not in {"atalla", "floor"}), None)
    for name, rounds in ranked:
        wall, cpu = (statistics.median(one[i] for one in rounds) * 1e3 for i in (0, 1))
        ratios = [[theirs[i] / ours[i] for theirs, ours in zip(rounds, own, strict=True)] for i in (1, 0)]
        goals = [f"{of_xnnpack}"] if name == "xnnpack" and of_xnnpack else []
        goals += [f"best {of_best}"] if name == best and of_best else []
        rows.append((name, f"{wall:.3f}", f"{cpu:.3f}", *map(_interval, ratios), ", ".join(goals)))
    headers = ("runtime", "wall ms", "CPU ms", "CPU: rival / atalla", "wall: rival / atalla", "goal")
    show(
        f"{model}, {precision}, {isa}, {threads} thread{'s' * (threads > 1)}, {len(own)} rounds",
        headers,
        rows,
    )


def together(found: dict[str, dict[str, list[Any]]], isa: str, *, precision: str) -> None:
    """Print one table of all models on one thread: ratios of processor time, with the goals in brackets."""
    columns = {name: title for name, title in COLUMNS.items() if any(name in one for one in found.values())}
    has_floor, rows = any("floor" in one for one in found.values()), []
    for model, times in found.items():
        cpu = {name: [one[1] for one in rounds] for name, rounds in times.items()}
        own, floor = cpu.pop("atalla"), cpu.pop("floor", None)
        ratios = {name: [theirs / ours for theirs, ours in zip(one, own, strict=True)] for name, one in cpu.items()}
        of_xnnpack, of_best = (f" [{one}]" if one else "" for one in goal_of(model, precision, isa))
        row = [model, f"{statistics.median(own) * 1e3:.3g}"]
        row += ["–" if floor is None else f"{statistics.median(floor) * 1e3:.3g}"] if has_floor else []
        for name in columns:
            row.append(_interval(ratios[name]) + of_xnnpack * (name == "xnnpack") if name in ratios else "–")
        best = min(cpu, key=lambda name: statistics.median(cpu[name]), default=None)
        rows.append((*row, "–" if best is None else f"{statistics.median(ratios[best]):.2f}{of_best}"))
    heads = [f"{title}, {precision if name in NARROW[precision] else 'fp32'}" for name, title in columns.items()]
    headers = ("model", "Atalla, ms", *["floor, ms"] * has_floor, *heads, "best rival")
    show(f"Rival / Atalla, {precision}, {isa}, 1 thread", headers, rows, name=f"atalla_latency_{precision}")


def main() -> int:
    """Measure each model in a process of its own, and print its tables, and one of all on one thread."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="+", default=list(MODELS))
    parser.add_argument("--rivals", nargs="*", default=list(RIVALS))
    parser.add_argument("--threads", nargs="+", type=int, default=[1, 2])
    parser.add_argument("--rounds", type=int, default=30, help="at least 6")
    parser.add_argument("--seconds", type=float, default=0.2, help="of calls of one runtime in a round")
    parser.add_argument("--precision", choices=list(NARROW), default="fp32")
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.one:
        measured = measure(
            asked.models[0], asked.threads[0], asked.rivals, asked.rounds, asked.seconds, precision=asked.precision
        )
        print(json.dumps(measured))
        return 0
    alone, isa = {}, ""
    for model in asked.models:
        for threads in asked.threads:
            command = [sys.executable, str(Path(__file__)), "--one", "--models", model, "--threads", str(threads)]
            command += ["--rounds", str(asked.rounds), "--seconds", str(asked.seconds), "--rivals", *asked.rivals]
            command += ["--precision", asked.precision]
            done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
            if done.returncode:
                return done.returncode
            found, isa = json.loads(done.stdout.splitlines()[-1])
            table(model, threads, found, isa, precision=asked.precision)
            if threads == 1:
                alone[model] = found
    if alone:
        together(alone, isa, precision=asked.precision)
    return 0


if __name__ == "__main__":
    sys.exit(main())
