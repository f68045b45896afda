"""Peers: time to a verdict, and wrong verdicts, beside optimum-benchmark 0.6.0 and polygraphy 0.53.6 on ResNet-50.

python benchmarks/peers.py [--peers PYTHON] [--times 2]

PYTHON is the interpreter of an environment that holds both. They need versions which no longer go with ours, and not
torchvision where its wheel is not made for that torch:

pip install torch==2.13.0 optimum-benchmark==0.6.0 optimum-intel==1.27.0 transformers==4.57.1 datasets==4.4.1 \
    huggingface-hub==0.36.0 openvino==2026.4.1 polygraphy==0.53.6 onnx==1.23.2 onnxruntime==1.31.1 pillow colored

Neither peer prints a verdict; they print figures, of which a reader believes a difference above 5 %. *Undecided* is no
difference where there is one. Each tool has its own defaults (polygraphy 100 iterations instead of 1), one thread where
it can be asked for, and the same architecture with random weights. The documented run is ``--times 10``, 90 minutes.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from _table import show

NAIVE = 0.05
"""What a reader of two figures takes for a difference."""
PAIR = ("torch", "openvino")
"""Two runtimes that optimum-benchmark and this project both have."""
MAKE_MODEL = """
import sys, torch
from transformers import ConvNextImageProcessor, ResNetConfig, ResNetForImageClassification
torch.manual_seed(0)
ResNetForImageClassification(ResNetConfig(num_labels=1000)).eval().save_pretrained(sys.argv[1])
ConvNextImageProcessor(size={"shortest_edge": 224}).save_pretrained(sys.argv[1])
"""
OPTIMUM = """
defaults: [benchmark, scenario: inference, launcher: process, backend: {backend}, _self_]
name: run
backend: {{device: cpu, model: {model}, library: transformers, task: image-classification, model_type: resnet, {own}}}
scenario: {{input_shapes: {{batch_size: 1, num_channels: 3, height: 224, width: 224}}}}
"""
OPTIMUM_BACKENDS = {
    "torch": ("pytorch", "inter_op_num_threads: 1"),  # 0.6.0 sets torch's own threads by this name, not by intra_op
    "openvino": ("openvino", "export: true, ov_config: {INFERENCE_PRECISION_HINT: f32, INFERENCE_NUM_THREADS: 1}"),
}


class CannotError(Exception):
    """A tool cannot do it here; the text is its own last word."""


@dataclass
class Asked:
    """One question to one tool, and what came back each time it was asked."""

    tool: str
    pair: tuple[str, str]
    ask: Callable[[], float | None]
    """Return second over first where a difference is believed, else None."""
    truth: float | None
    """Below 1 where the second is really faster; None where both are the same."""
    said: list[float | None] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    error: str = ""

    def once(self) -> None:
        """Ask once more; a tool that cannot is not asked again."""
        if self.error:
            return
        began = time.perf_counter()
        try:
            self.said.append(self.ask())
        except CannotError as error:
            self.error = str(error)
        else:
            self.seconds.append(time.perf_counter() - began)

    @property
    def wrong(self) -> int:
        """How often a difference was believed that is not there, or the slower one was thought to be faster."""
        believed = [one for one in self.said if one is not None]
        return sum(self.truth is None or (one < 1) != (self.truth < 1) for one in believed)

    def row(self) -> tuple[str, ...]:
        """Give the row of the table."""
        question = " and ".join(self.pair)
        if self.error:
            return self.tool, question, "", "", "", "", "", f"cannot: {self.error}"
        undecided = self.said.count(None) if self.truth is not None else 0
        counts = (str(len(self.said)), str(self.wrong), str(undecided))
        figures = (f"{self.seconds[0]:.0f}", f"{statistics.median(self.seconds[1:] or self.seconds):.0f}")
        different = [one for one in self.said if one is not None]
        said = f"different, {min(different):.2f} to {max(different):.2f}" if different else "no difference"
        return self.tool, question, *counts, *figures, said


def ours(pair: Sequence[str], cache: Path, *further: str) -> float | None:
    """Ask this project's command; the ranks are its verdict."""
    command = [sys.executable, "-m", "cross_backend", "compare", "resnet50", "--json", *further, "--backends", *pair]
    document = json.loads(_run(command, CROSS_BACKEND_CACHE=str(cache)))
    first, second = document["results"]
    if first["rank"] is None or second["rank"] is None:
        raise CannotError(str(first["reason"] or second["reason"]))
    if first["rank"] == second["rank"]:
        return None
    return float(second["latency_ms"]["median"] / first["latency_ms"]["median"])


def optimum(pair: Sequence[str], python: Path, model: Path, folder: Path) -> float | None:
    """Run optimum-benchmark once for each, and compare the means."""
    means = []
    for name in pair:
        backend, own = OPTIMUM_BACKENDS[name]
        with tempfile.TemporaryDirectory(dir=folder) as place:
            Path(place, "run.yaml").write_text(OPTIMUM.format(backend=backend, model=model, own=own))
            command = [str(python.with_name("optimum-benchmark")), "--config-dir", place, "--config-name", "run"]
            _run(command, cwd=Path(place), HF_HUB_OFFLINE="1", OMP_NUM_THREADS="1")
            report = json.loads(Path(place, "benchmark_report.json").read_text())
            means.append(float(report["forward"]["latency"]["mean"]))
    return _believed(means)


def polygraphy(python: Path, file: Path, pair: Sequence[str]) -> float | None:
    """Run polygraphy with two runners, and compare the averages that it prints."""
    asked = ["--sequential-runners", "--warm-up", "10", "--iterations", "100"]
    text = _run([str(python.with_name("polygraphy")), "run", str(file), *(f"--{name}" for name in pair), *asked])
    return _believed([float(ms) for ms in re.findall(r"Average inference time: ([\d.]+) ms", text)])


def _believed(figures: Sequence[float]) -> float | None:
    ratio = figures[1] / figures[0]
    return ratio if ratio > 1 + NAIVE or ratio < 1 / (1 + NAIVE) else None


def _run(command: list[str], cwd: Path | None = None, **variables: str) -> str:
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, cwd=cwd, env={**os.environ, **variables}
    )
    if done.returncode:
        lines = [line.strip() for line in (done.stdout + done.stderr).splitlines() if line.strip()]
        errors = [line for line in lines if re.search(r"Error|could not", line)]
        raise CannotError((errors[-1:] or lines[-1:] or [f"exit status {done.returncode}"])[0][:160])
    return done.stdout


def questions(asked: argparse.Namespace, folder: Path) -> list[Asked]:
    """Give what each tool is asked."""
    cache = folder / "cache"
    cache.mkdir()
    truth = ours(PAIR, folder / "of-truth", "--launches", "5", "--seconds", "25", "--num-runs", "1000")
    if truth is None:
        raise SystemExit(f"{PAIR} are equally fast here: nobody can be wrong about them.")
    same = [(name, name) for name in ("openvino", "cpu")]
    found = [
        Asked("cross-backend", pair, lambda pair=pair: ours(pair, cache), truth if pair == PAIR else None)
        for pair in (*same, PAIR)
    ]
    if asked.peers is None:
        return found
    model = folder / "resnet50"
    _run([str(asked.peers), "-c", MAKE_MODEL, str(model)])
    written = folder / "written"
    export = ["export", "resnet50", "--backends", "cpu", "--output-dir", str(written)]
    _run([sys.executable, "-m", "cross_backend", *export], CROSS_BACKEND_CACHE=str(folder / "of-truth"))
    file = next(written.rglob("*.onnx"))
    found += [
        Asked("optimum-benchmark", pair, lambda pair=pair: optimum(pair, asked.peers, model, folder), true)
        for pair, true in ((same[0], None), (PAIR, truth))
    ]
    found += [
        Asked("polygraphy", pair, lambda pair=pair: polygraphy(asked.peers, file, pair), None)
        for pair in (("onnxrt", "onnxrt"), ("onnxrt", "trt"))  # on a CPU it has no second runtime
    ]
    return found


def main() -> int:
    """Print the table; 1 if ours was wrong more often than chance allows in 5 %."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peers", type=Path, metavar="PYTHON", help="ours alone where not given")
    parser.add_argument("--times", type=int, default=2, help="that each question is asked, in turn")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        table = questions(asked, Path(name))
        for _ in range(asked.times):
            for question in table:
                question.once()
    truth = next(question.truth for question in table if question.pair == PAIR)
    show(
        f"ResNet-50: is the second different from the first? {PAIR[1]} takes {truth:.2f} of the time of {PAIR[0]}",
        ("tool", "first and second", "asked", "wrong", "undecided", "first s", "again s", "said: second / first"),
        [question.row() for question in table],
    )
    mine = [question for question in table if question.tool == "cross-backend"]
    asked_in_all = sum(len(question.said) for question in mine)
    allowed = asked_in_all * 0.05 + 3 * math.sqrt(asked_in_all * 0.05 * 0.95)
    return 1 if any(question.error for question in mine) or sum(question.wrong for question in mine) > allowed else 0


if __name__ == "__main__":
    sys.exit(main())
