"""What int8 gains and costs on each backend: latency and accuracy in one table, both precisions measured interleaved.

The claim: digits_cnn loses at most half a point of accuracy on each backend. Seeded weights of other models agree in
classes by chance only, so their SQNR shows more.

python benchmarks/int8.py [MODEL …] [--targets xnnpack,cpu,openvino,litert,atalla]
"""

from __future__ import annotations

import argparse
import sys

from _table import show

import cross_backend as xb
from cross_backend.records import Outcome, Result
from cross_backend.report import figures, tables

MODELS = ("digits_cnn", "mobilenet_v3_small", "resnet50")
TARGETS = ("xnnpack", "cpu", "openvino", "litert", "atalla")
MOST_LOSS = 0.005


def cells(model: str, full: Result, low: Result) -> tuple[str, ...]:
    """Return the row of one backend."""
    if full.latency_ms is None or low.latency_ms is None:
        failed = full if full.outcome is not Outcome.OK else low
        return (model, full.title, f"{failed.outcome}: {failed.reason}", *[tables.NONE] * 6)
    names = tables.costs([low])
    cost = ", ".join(f"{name} {tables.cost(low, name)}" for name in names)
    before = ", ".join(tables.cost(full, name) for name in names if name in full.task) or tables.NONE
    share = low.latency_ms.value / full.latency_ms.value
    return (
        model,
        full.title,
        figures.duration(full.latency_ms.value, full.latency_ms),
        figures.duration(low.latency_ms.value, low.latency_ms),
        f"{share:.2f}",
        before,
        cost,
        tables.size(full.size_bytes),
        tables.size(low.size_bytes),
    )


def main() -> int:
    """Print the table; 1 if the claim does not hold."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("models", nargs="*", default=MODELS)
    parser.add_argument("--targets", default=",".join(TARGETS))
    args = parser.parse_args()
    rows, holds = [], True
    for model in args.models:
        pairs = [(name, f"{name}?precision=int8") for name in args.targets.split(",")]
        panel = xb.compare(model, [target for pair in pairs for target in pair])
        print(f"{model}: {panel.machine.cpu}; {'; '.join(panel.warnings) or 'no warnings'}", file=sys.stderr)
        for index in range(len(pairs)):
            full, low = panel.results[2 * index : 2 * index + 2]
            rows.append(cells(model, full, low))
            holds &= all(low.task.get(name, 0.0) >= value - MOST_LOSS for name, value in full.task.items())
    headers = ("model", "backend", "fp32", "int8", "int8 / fp32", "fp32's metric", "int8's metric", "size", "int8's")
    show("int8 beside fp32, one thread", headers, rows, name="int8")
    return int(not holds)


if __name__ == "__main__":
    sys.exit(main())
