"""Start-up: CPU seconds of ``--help`` and ``backends`` beside an empty Python process, interleaved.

The claim: ``--help`` answers in well under 0.3 s of CPU.
"""

from __future__ import annotations

import resource
import statistics
import subprocess
import sys

from _table import show

ROUNDS = 11
COMMANDS = {
    "python -c pass": ["-c", "pass"],
    "cross-backend --help": ["-m", "cross_backend", "--help"],
    "cross-backend backends": ["-m", "cross_backend", "backends"],
    "python -c 'import torch'": ["-c", "import torch"],
}


def cpu_s(arguments: list[str]) -> float:
    """Give user and system seconds of one process."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, *arguments], check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> int:
    """Print the table; 1 if ``--help`` is above the claim."""
    taken: dict[str, list[float]] = {name: [] for name in COMMANDS}
    for _ in range(ROUNDS):
        for name, arguments in COMMANDS.items():
            taken[name].append(cpu_s(arguments))
    empty = taken["python -c pass"]
    rows = [
        (
            name,
            f"{statistics.median(values):.3f}",
            f"{statistics.median(v / e for v, e in zip(values, empty, strict=True)):.1f}",
        )
        for name, values in taken.items()
    ]
    show("Start-up", ("command", "CPU s", "ratio to an empty process"), rows, name="startup")
    return 0 if statistics.median(taken["cross-backend --help"]) < 0.3 else 1


if __name__ == "__main__":
    sys.exit(main())
