"""What the proof costs: captures and verifications with probes over those without, side by side in one run.

python benchmarks/proof.py [MODEL …]
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
import warnings
from pathlib import Path

from cross_backend.bench.open_artifact import OpenArtifact, open_session, resolve_with_threads
from cross_backend.bench.verification import verified
from cross_backend.cache import Cache
from cross_backend.lowering.lower import lower
from cross_backend.program import reference
from cross_backend.program.captured import Captured
from cross_backend.program.writing import write_capture
from cross_backend.tensors import load_tensors
from cross_backend.workloads import find_workload

MODELS = ("linear_regression", "digits_cnn", "mobilenet_v3_small", "resnet50", "bert_base")
TARGETS = ("xnnpack", "cpu", "openvino", "portable")
CAPTURES, VERIFICATIONS = 3, 5


def captured(name: str, folder: Path, *, probes: bool) -> tuple[Captured, float]:
    """Capture a model; return how long it took, seconds."""
    workload = find_workload(name).build()
    folder.mkdir()
    kept = reference._probed
    if not probes:
        reference._probed = lambda *_args: ([], {})  # type: ignore[assignment]
    try:
        started = time.perf_counter()
        made = write_capture(workload, folder)
        return made, time.perf_counter() - started
    finally:
        reference._probed = kept


def verification(made: Captured, target: str, cache: Cache, *, probes: bool) -> list[float]:
    """Return how long verifications took, the opening included, seconds."""
    resolved, options = resolve_with_threads(target, 1)
    artifact = lower(made, resolved, cache).artifact
    sample = load_tensors(made.sample_path)
    if not probes:
        sample = {name: group for name, group in sample.items() if not name.startswith("probe")}
    found = []
    for _ in range(VERIFICATIONS):
        started = time.perf_counter()
        one = OpenArtifact(lambda: open_session(artifact, resolved, options), sample)
        verified(one, "fp32")
        found.append(time.perf_counter() - started)
        one.close()
    return found


def main() -> int:
    """Print ratios: capture, and verification on each target."""
    warnings.simplefilter("ignore")
    print(f"{'model':22}{'capture':>10}" + "".join(f"{target:>12}" for target in TARGETS), flush=True)
    for name in sys.argv[1:] or MODELS:
        with tempfile.TemporaryDirectory() as scratch:
            folder, cache = Path(scratch), Cache(Path(scratch) / "cache")
            times: dict[bool, list[float]] = {True: [], False: []}
            made = None
            for turn in range(CAPTURES):
                for probes in (turn % 2 == 0, turn % 2 == 1):
                    one, seconds = captured(name, folder / f"{turn}{probes}", probes=probes)
                    times[probes].append(seconds)
                    made = one if probes else made
            assert made is not None
            cells = [statistics.median(times[True]) / statistics.median(times[False])]
            for target in TARGETS:
                plain, probed = (verification(made, target, cache, probes=probes) for probes in (False, True))
                cells.append(statistics.median(probed) / statistics.median(plain))
            print(f"{name:22}{cells[0]:>10.2f}" + "".join(f"{cell:>12.2f}" for cell in cells[1:]), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
