"""Generation: prefill and decode on every target, verified over all steps; and what a longer context costs a token.

python benchmarks/generation.py [--models llama gpt2_decoder] [--targets torch onnxruntime …] [--length 128:64]

The first tables are those of ``compare --generate``. The last one compares the latency of a token at position 100 of
caches for 128 positions with that at position 1,000 of caches for 1,152. Caches are static: a call attends over all
positions, so that the attention's own work grows by the positions. ``attention alone`` is that work by PyTorch: the two
products and the softmax of all layers, without a cache's copy. A runtime that copied its caches would add their bytes
to every token; the last column says how long one copy takes here.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence

import torch
from _table import show

from cross_backend.cache import Cache
from cross_backend.comparison.settings import Settings
from cross_backend.exporting.export import ExportSettings, export
from cross_backend.generation.rows import GenerationPanel, GenerationRow, Length, latencies
from cross_backend.generation.run import run_generation
from cross_backend.measurement import median_of
from cross_backend.report import figures
from cross_backend.report.generation import print_generation
from cross_backend.report.terminal import Terminal
from cross_backend.workloads import find_workload
from cross_backend.workloads.table import WORKLOADS

TARGETS = [
    *("torch", "onnxruntime", "onnxruntime.genai", "llama_cpp", "openvino"),
    *("executorch.xnnpack", "torch.aot_inductor", "iree", "atalla", "mnn"),
]
SHORT, LONG = 128, 1152
"""Positions of the caches in the last table."""
LAYERS, HEADS, WIDTH = 6, 6, 48
"""Of ``llama``, for its attention alone."""
LEAST = 5
"""Targets that must be right on every model."""
MS = 1e-6


def measured(model: str, targets: Sequence[str], lengths: Sequence[Length], sequences: int) -> list[GenerationPanel]:
    """Export a model and generate with it on all targets."""
    source = find_workload(model)
    captured, rows = export(source, targets, ExportSettings(Cache()))
    settings = Settings(timeout_s=1800.0)
    return run_generation(captured, rows, lengths, settings, Cache(), source.context, sequences)


def median_s(run: Callable[[], object], calls: int = 200) -> float:
    """Give the median duration of a call, after a few that warm up."""
    found = []
    for _ in range(calls + 10):
        began = time.perf_counter()
        run()
        found.append(time.perf_counter() - began)
    return float(median_of(found[10:]))


def attention_ms(positions: int) -> float:
    """Give how long the attention of one token takes over so many positions, in all layers."""
    keys, values = (torch.randn(LAYERS, HEADS, positions, WIDTH) for _ in range(2))
    query = torch.randn(HEADS, 1, WIDTH)

    def run() -> None:
        for layer in range(LAYERS):
            scores = (query @ keys[layer].transpose(1, 2)).softmax(-1)
            scores @ values[layer]

    return 1e3 * median_s(run)


def copy_ms(size_bytes: int) -> float:
    """Give how long a copy of so many bytes takes."""
    source = torch.zeros(size_bytes, dtype=torch.uint8)
    target = torch.empty_like(source)
    return 1e3 * median_s(lambda: target.copy_(source))


def p50_ms(row: GenerationRow) -> float | None:
    """Give the median latency of a token."""
    return None if row.decode is None else row.decode.median * MS


def contexts(targets: Sequence[str], sequences: int, new: int) -> None:
    """Print the last table."""
    (short,) = measured(f"llama?context={SHORT}", targets, [Length(100, new)], sequences)
    early, late = measured(f"llama?context={LONG}", targets, [Length(100, new), Length(1000, new)], sequences)
    rows = []
    for one, two, three in zip(short.rows, early.rows, late.rows, strict=True):
        times = [p50_ms(row) for row in (one, two, three)]
        grown = None if times[0] is None or times[2] is None else times[2] - times[0]
        shown = ["–" if value is None else f"{value:.2f}" for value in (*times, grown)]
        rows.append([one.title, *shown, f"{three.moved_bytes / 1e6:.1f}"])
    own = [attention_ms(positions) for positions in (SHORT, LONG)]
    copied = copy_ms(late.rows[0].state_bytes)
    rows.append(
        ["attention alone (PyTorch)", f"{own[0]:.2f}", f"{own[1]:.2f}", f"{own[1]:.2f}", f"{own[1] - own[0]:.2f}", "–"]
    )
    headers = (
        "P50 of a token, ms",
        f"at 100 of {SHORT}",
        f"at 100 of {LONG:,}",
        f"at 1,000 of {LONG:,}",
        "growth",
        "MB copied",
    )
    show(
        f"A longer context, one thread; one copy of all caches takes {copied:.2f} ms",
        headers,
        rows,
        name="generation_context",
    )


def decoding(panel: GenerationPanel, *, low: bool) -> None:
    """Print one table of a model, the fastest decode first."""
    ranking, rows = panel.ranking("decode"), []
    for index in ranking.order:
        row = panel.rows[index]
        first = None if row.prefill is None else row.prefill.median
        token = None if row.decode is None else latencies(row.decode)[0].value  # none of few tokens
        times = ["–" if ns is None else figures.duration(ns * MS) for ns in (first, token)]
        rank = str(ranking.ranks.get(index, "–"))
        rows.append((row.title, *times, figures.ratio(ranking.ratios.get(index)), rank, f"{row.moved_bytes / 1e6:.1f}"))
    headers = ("target", "first token", "P50 of a token", "decode, ratio to the fastest", "rank", "MB copied per token")
    title = f"{panel.workload}, prompt and new tokens {panel.length}, one thread"
    show(title, headers, rows, name=f"generation_{panel.workload}{'_low' * low}")


def main() -> int:
    """Print the tables; 1 if a model has fewer than five targets that are right on every step."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="*", default=["llama", "gpt2_decoder"])
    parser.add_argument("--targets", nargs="+", default=TARGETS)
    parser.add_argument("--length", type=Length.parse, default=Length(128, 64), help="tokens of prompt and answer")
    parser.add_argument("--sequences", type=int, default=7, help="timed ones of each target")
    parser.add_argument(
        "--new", type=int, default=24, help="tokens after a prompt in the last table; 0 for no such table"
    )
    asked = parser.parse_args()
    torch.set_num_threads(1)
    few = 0
    for model in asked.models:
        (panel,) = measured(model, asked.targets, [asked.length], asked.sequences)
        print(f"{WORKLOADS[model.partition('?')[0]].parameters:,} parameters")
        print_generation(Terminal(), panel)
        decoding(panel, low=any("precision=" in target for target in asked.targets))
        few += sum(row.verified == asked.length.new for row in panel.rows) < LEAST
    if asked.new:
        contexts(asked.targets, asked.sequences, asked.new)
    return 1 if few else 0


if __name__ == "__main__":
    raise SystemExit(main())
