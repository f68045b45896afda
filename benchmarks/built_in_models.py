"""Built-in models × targets × precisions: every outcome, each MISMATCH and error with its reason.

python benchmarks/built_in_models.py [MODEL …] [--targets xnnpack,cpu,…] [--keep FILE]

A MISMATCH is a fault of the target, or a false verdict: look at each. Models are captured and judged one after the
other, each target in a process of its own, so the largest model needs about 8 GB.
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
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from _table import show

from cross_backend.registry import find_backend, missing_here, resolve
from cross_backend.workloads.table import WORKLOADS

TARGETS = (
    *("xnnpack", "portable", "cpu", "openvino", "iree", "aot_inductor", "torch.compile", "torch.eager"),
    *("atalla", "executorch.atalla"),
)
SLOW = {"portable": 1.5e9}
"""Target → floating point operations of the largest model that it runs in a minute or so."""
KINDS = ("OK", "MISMATCH", "NOT_PROVED", "UNAVAILABLE", "other")
LONGEST_S = 3600
"""For one child process."""


def targets_of(names: list[str], flops: int) -> Iterator[str]:
    """Yield each target that runs here, with each of its precisions."""
    for name in names:
        backend = find_backend(name.partition("?")[0])
        gaps = missing_here(backend)
        if gaps.lower or gaps.run or flops > SLOW.get(name, 1e15):
            continue
        option = backend.options.get("precision")
        if option is None or "?" in name:
            yield name
        else:
            yield from (f"{name}?precision={choice}" for choice in option.choices)


def main() -> int:
    """Judge the models, and print the outcomes."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("models", nargs="*", help="all that are ready here by default")
    parser.add_argument("--targets", default=",".join(TARGETS))
    parser.add_argument("--keep", type=Path, metavar="FILE", help="what is there is not judged again")
    parser.add_argument("--child", nargs=2, metavar=("WHAT", "FOLDER"), help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        print(json.dumps(_capture(*args.child) if args.child[0] in WORKLOADS else _judge(*args.child)), flush=True)
        return 0
    ready = [name for name, one in WORKLOADS.items() if one.source != "ultralytics"]
    models = args.models or sorted(ready, key=lambda name: WORKLOADS[name].flops)
    kept = {}
    if args.keep is not None and args.keep.exists():
        kept = {tuple(row[:2]): row for row in map(json.loads, args.keep.read_text().splitlines())}
    found = []
    for model in models:
        for row in _rows(model, list(targets_of(args.targets.split(","), WORKLOADS[model].flops)), kept):
            found.append(row)
            print(*row, sep="  ", file=sys.stderr, flush=True)
            if args.keep is not None and tuple(row[:2]) not in kept:
                with args.keep.open("a") as file:
                    file.write(json.dumps(row) + "\n")
    show(f"{len(models)} built-in models", ("target", *KINDS, "largest share"), list(_counted(found)))
    wrong = [row for row in found if row[2] not in {"OK", "UNAVAILABLE"}]
    print(*("  ".join(map(str, row)) for row in wrong), sep="\n")
    return int(any(row[2] in {"MISMATCH", "ERROR", "CRASH"} for row in wrong))


def _counted(found: list[list[Any]]) -> Iterator[tuple[str, ...]]:
    """Yield a row a target: outcomes, and the largest deviation as a share of what is allowed."""
    for target in dict.fromkeys(row[1] for row in found):
        mine = [row for row in found if row[1] == target]
        kinds = Counter(row[2] if row[2] in KINDS else "other" for row in mine)
        shares = [row[3] / row[4] for row in mine if row[2] == "OK"]
        yield target, *(str(kinds[kind]) for kind in KINDS), f"{max(shares):.0%}" if shares else "–"


def _rows(model: str, targets: list[str], kept: dict[tuple[str, str], list[Any]]) -> Iterator[list[Any]]:
    """Yield model, target, outcome, deviation, what is allowed, SQNR in dB, reason, seconds."""
    yield from (kept[model, target] for target in targets if (model, target) in kept)
    left = [target for target in targets if (model, target) not in kept]
    if not left:
        return
    with tempfile.TemporaryDirectory() as scratch:
        done = _child(model, scratch)
        if done[0] != "OK":
            yield [model, "capture", *done]
            return
        for target in left:
            yield [model, target, *_child(target, scratch)]


def _child(what: str, folder: str) -> list[Any]:
    started = time.time()
    command = [sys.executable, __file__, "--child", what, folder]
    try:
        done = subprocess.run(
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, timeout=LONGEST_S, check=False
        )
    except subprocess.TimeoutExpired:
        return ["TIMEOUT", None, None, None, f"more than {LONGEST_S} s", LONGEST_S]
    lines = [line for line in done.stdout.splitlines() if line.startswith('["')]
    row = json.loads(lines[-1]) if lines and not done.returncode else None
    return [*(row or ["CRASH", None, None, None, f"status {done.returncode}"]), round(time.time() - started)]


def _capture(model: str, folder: str) -> list[Any]:
    from cross_backend.errors import CrossBackendError
    from cross_backend.program.writing import write_capture
    from cross_backend.workloads import find_workload

    warnings.simplefilter("ignore")
    place = Path(folder) / "capture"
    place.mkdir()
    try:
        write_capture(find_workload(model).build(), place)
    except CrossBackendError as error:
        return ["REFUSED", None, None, None, str(error)]
    return ["OK", None, None, None, None]


def _judge(target: str, folder: str) -> list[Any]:
    from cross_backend.bench.open_artifact import OpenArtifact, open_session, resolve_with_threads
    from cross_backend.bench.verification import verified
    from cross_backend.cache import Cache
    from cross_backend.errors import CrossBackendError
    from cross_backend.lowering.lower import lower
    from cross_backend.program.captured import Captured
    from cross_backend.tensors import load_tensors
    from cross_backend.verify.compare import precision_of

    warnings.simplefilter("ignore")
    captured = Captured.read(Path(folder) / "capture")
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        try:
            resolved, options = resolve_with_threads(target, 2)
            artifact = lower(captured, resolved, Cache(Path(scratch))).artifact
            one = OpenArtifact(lambda: open_session(artifact, resolved, options), load_tensors(captured.sample_path))
            found = verified(one, precision_of(resolve(target).options)).comparison
            one.close()
        except CrossBackendError as error:
            kind = type(error).__name__.removesuffix("Error").upper()
            return [kind, None, None, None, str(error)]
        except Exception as error:
            return ["ERROR", None, None, None, f"{type(error).__name__}: {error}"]
    return [str(found.outcome), found.max_rel, found.tolerance, found.sqnr_db, found.why]


if __name__ == "__main__":
    sys.exit(main())
