"""Random programs on several targets: outcomes by target, and each MISMATCH with its reason and its program's seed.

python benchmarks/random_graphs.py [--count 300] [--targets xnnpack,cpu,openvino,iree.llvm_cpu,atalla]

The programs are those of Atalla's fuzzer. A MISMATCH is a fault of the target, or a false verdict: look at each.
``--show SEED`` prints a program.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

from _table import show

TARGETS = ("xnnpack", "cpu", "openvino", "iree.llvm_cpu", "atalla")
KINDS = {
    "OK": "OK",
    **dict.fromkeys(("NOT_PROVED", "UNPROVED"), "nothing proved"),
    **dict.fromkeys(("UNSUPPORTED", "LOWER", "LOAD"), "cannot lower or load"),
    "MISMATCH": "wrong",
    "CRASH": "crash",
}
"""Outcome, or error's kind → column; others have columns of their own."""


def main() -> int:
    """Judge programs, and print the outcomes."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--targets", default=",".join(TARGETS))
    parser.add_argument("--show", type=int)
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    targets = args.targets.split(",")
    if args.show is not None:
        print(source_of(args.show))
        return 0
    seeds = range(args.first, args.first + args.count)
    if args.child:
        _judge_all(seeds, targets)
        return 0
    started, outcomes, notes = time.time(), {target: Counter[str]() for target in targets}, []
    for seed, target, outcome, reason in _rows(seeds, args.targets):
        outcomes.setdefault(target, Counter())[KINDS.get(outcome, outcome)] += 1
        if outcome in {"MISMATCH", "CRASH", "ERROR"}:
            notes.append(f"{outcome} seed {seed} on {target}: {reason}")
            print(notes[-1], file=sys.stderr, flush=True)
    kinds = list(dict.fromkeys([*KINDS.values(), *(kind for counts in outcomes.values() for kind in counts)]))
    rows = [(target, *(str(counts[kind]) for kind in kinds)) for target, counts in outcomes.items()]
    title = f"{args.count} programs, {time.time() - started:.0f} s"
    show(title, ("target", *kinds), rows, name="random_graphs")
    print(*notes, sep="\n")
    return 0


def source_of(seed: int) -> str:
    """Return a program as Python."""
    from atalla.fuzz.generate import generate
    from atalla.fuzz.graph import inputs_source, module_source, prelude

    graph = generate(seed)
    return f"{prelude(graph)}\n{module_source(graph)}\nmodule, inputs = Model().eval(), {inputs_source(graph)}"


def _rows(seeds: range, targets: str) -> Any:
    """Yield (seed, target, outcome, reason) from child processes; a crash costs one program on one target."""
    left = list(seeds)
    while left:
        count = left[-1] - left[0] + 1
        command = [
            sys.executable,
            __file__,
            "--child",
            f"--first={left[0]}",
            f"--count={count}",
            f"--targets={targets}",
        ]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as child:
            assert child.stdout is not None
            doing: list[Any] = [left[0], "capture"]
            for line in child.stdout:
                row = json.loads(line)
                if len(row) == 2:
                    doing = row
                else:
                    yield row
                    doing = [row[0] + 1, "capture"] if row[1] == targets.rpartition(",")[2] else doing
        if child.returncode == 0:
            return
        yield doing[0], doing[1], "CRASH", f"status {child.returncode}"
        left = [seed for seed in left if seed > doing[0]]


def _judge_all(seeds: range, targets: list[str]) -> None:
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory() as scratch:
        for seed in seeds:
            _judge(seed, targets, Path(scratch))


def _judge(seed: int, targets: list[str], scratch: Path) -> None:
    import torch

    from cross_backend.bench.open_artifact import OpenArtifact, open_session, resolve_with_threads
    from cross_backend.bench.verification import verified
    from cross_backend.cache import Cache
    from cross_backend.errors import CaptureError, CrossBackendError
    from cross_backend.lowering.lower import lower
    from cross_backend.program.writing import write_capture
    from cross_backend.tensors import load_tensors
    from cross_backend.workloads import Workload

    space: dict[str, Any] = {}
    torch.manual_seed(0)
    exec(source_of(seed), space)
    folder = scratch / str(seed)
    folder.mkdir()
    try:
        captured = write_capture(Workload(f"net{seed}", space["module"], space["inputs"]), folder)
    except CaptureError as error:
        print(json.dumps([seed, "capture", "REFUSED", str(error)]), flush=True)
        return
    sample = load_tensors(captured.sample_path)
    for target in targets:
        print(json.dumps([seed, target]), flush=True)
        reason: str | None = None
        try:
            resolved, options = resolve_with_threads(target, 1)
            artifact = lower(captured, resolved, Cache(scratch / "cache")).artifact
            one = OpenArtifact(lambda a=artifact, r=resolved, o=options: open_session(a, r, o), sample)
            found = verified(one, "fp32").comparison
            outcome, reason = str(found.outcome), found.why
        except CrossBackendError as error:
            outcome, reason = type(error).__name__.removesuffix("Error").upper(), str(error)
        except Exception as error:
            outcome, reason = "ERROR", f"{type(error).__name__}: {error}"
        print(json.dumps([seed, target, outcome, reason]), flush=True)


if __name__ == "__main__":
    sys.exit(main())
