"""load_best beside a direct load of the artifact that it picks, once its verdict is remembered, interleaved.

The claim: it adds at most 50 ms.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from _table import show

MODEL = "mobilenet_v3_small"
TARGETS = ("vulkan", "xnnpack", "portable")
ROUNDS = 15


def seconds(load: Callable[[], Any]) -> float:
    """Open and close a session; give the seconds until it was open."""
    started = time.perf_counter()
    with load():
        return time.perf_counter() - started


def main() -> int:
    """Print the table; 1 if the claim does not hold."""
    with tempfile.TemporaryDirectory() as folder:
        os.environ["CROSS_BACKEND_CACHE"] = str(Path(folder, "cache"))
        subprocess.run(
            [sys.executable, "-m", "cross_backend", "bundle", MODEL, "--output-dir", folder, "--backends", *TARGETS],
            check=True,
            capture_output=True,
        )
        import cross_backend as xb

        bundle = Path(folder, MODEL)
        payload = bundle / f"{MODEL}_xnnpack.pte"
        first = seconds(lambda: xb.load_best(bundle))
        seconds(lambda: xb.load(payload))
        direct, best = [], []
        for _ in range(ROUNDS):
            direct.append(seconds(lambda: xb.load(payload)))
            best.append(seconds(lambda: xb.load_best(bundle)))
    added = statistics.median(b - d for b, d in zip(best, direct, strict=True))
    rows = [
        ("xb.load(payload)", f"{statistics.median(direct) * 1e3:.1f}", "–"),
        ("xb.load_best(bundle), remembered", f"{statistics.median(best) * 1e3:.1f}", f"{added * 1e3:.1f}"),
        ("xb.load_best(bundle), the first time", f"{first * 1e3:.0f}", "–"),
    ]
    show(f"Opening {MODEL} on xnnpack", ("", "ms", "added ms"), rows, name="load_best")
    return 0 if added <= 0.05 else 1


if __name__ == "__main__":
    sys.exit(main())
