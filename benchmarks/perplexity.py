"""What low precision costs a decoder: perplexity of held-out text, and latency per token, by target and precision.

``llama_text`` is trained while it is built, so its perplexity means something: random weights have that of guessing.
Every target is fed the same text (teacher forcing). The claim: in float32 no target's perplexity differs by more than
0.1 % from PyTorch's.

python benchmarks/perplexity.py [--targets torch onnxruntime …] [--length 64:64]
"""

from __future__ import annotations

import argparse
import sys

from _table import show

import cross_backend as xb
from cross_backend.cache import Cache
from cross_backend.comparison.settings import Settings
from cross_backend.exporting.export import ExportSettings, export
from cross_backend.generation.rows import GenerationRow, Length
from cross_backend.generation.run import run_generation
from cross_backend.names.task_metrics import PERPLEXITY, drop
from cross_backend.records import Outcome, Result
from cross_backend.registry import at_every_precision
from cross_backend.report import figures, tables
from cross_backend.workloads import find_workload

MODEL = "llama_text"
TARGETS = (
    *("torch.eager", "onnxruntime.cpu", "onnxruntime.genai", "llama_cpp", "openvino", "executorch.xnnpack"),
    *("litert", "atalla", "mnn", "iree.llvm_cpu"),
)
ORDER = ("fp32", "fp16", "bf16", "int8", "int8dyn", "int4w")
MOST_DROP = 0.001
"""Of a float32 target."""
MS = 1e-6


def decoded(targets: list[str], length: Length) -> dict[str, GenerationRow]:
    """Generate with every target, and return what each took."""
    source = find_workload(MODEL)
    captured, rows = export(source, targets, ExportSettings(Cache()))
    (panel,) = run_generation(captured, rows, [length], Settings(timeout_s=1800.0), Cache(), source.context)
    return {row.target: row for row in panel.rows}


def cells(result: Result, row: GenerationRow | None, reference: float) -> tuple[str, ...]:
    """Return the row of one target."""
    name = (result.title.partition(" precision=")[0], result.precision or "fp32")
    if result.outcome is not Outcome.OK or PERPLEXITY not in result.task:
        return (*name, str(result.outcome), *[tables.NONE] * 3)
    value = result.task[PERPLEXITY]
    token = tables.NONE if row is None or row.decode is None else figures.duration(row.decode.median * MS)
    return (*name, f"{value:.4f}", f"{value / reference:.4f}", token, tables.size(result.size_bytes))


def by_precision(right: list[Result], reference: float) -> None:
    """Print a row a target: the perplexity at each precision, and its difference from float32's by PyTorch."""
    found: dict[str, dict[str, str]] = {}
    for result in right:
        value, precision = result.task[PERPLEXITY], result.precision or "fp32"
        more = "" if precision == "fp32" else f" ({value / reference - 1:+.2%})"
        found.setdefault(result.title.partition(" precision=")[0], {})[precision] = f"{value:.4f}{more}"
    precisions = sorted({one for row in found.values() for one in row}, key=ORDER.index)
    rows = [(target, *(row.get(one, "") for one in precisions)) for target, row in found.items()]
    show(f"{PERPLEXITY.capitalize()} of {MODEL}", ("target", *precisions), rows, name="perplexity")


def main() -> int:
    """Print the table; 1 if the claim does not hold."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--targets", nargs="+", default=TARGETS)
    parser.add_argument("--length", type=Length.parse, default=Length(64, 64), help="tokens of prompt and answer")
    args = parser.parse_args()
    targets = [one for text in args.targets for one in at_every_precision(text)]
    panel = xb.compare(MODEL, targets, launches=1, seconds=5.0)
    print(f"{panel.machine.cpu}; {'; '.join(panel.warnings) or 'no warnings'}", file=sys.stderr)
    right = [result for result in panel.results if PERPLEXITY in result.task]
    rows = decoded([result.target for result in right], args.length)
    exact = next(result.task[PERPLEXITY] for result in right if result.precision in {None, "fp32"})
    shown = [cells(result, rows.get(result.target), exact) for result in panel.results]
    headers = ("target", "precision", PERPLEXITY, "/ float32", "P50 of a token", "file")
    show(f"{MODEL}, {args.length} tokens, one thread", headers, shown)
    by_precision(right, exact)
    for result in panel.results:
        if result not in right:
            print(f"{result.title}: {result.reason or result.absent.get('accuracy', '')}")
    off = [
        result.title
        for result in right
        if result.precision in {None, "fp32"} and abs(drop(PERPLEXITY, result.task[PERPLEXITY], exact)) > MOST_DROP
    ]
    print(f"The claim {'fails for ' + ', '.join(off) if off else 'holds'}.")
    return int(bool(off))


if __name__ == "__main__":
    sys.exit(main())
