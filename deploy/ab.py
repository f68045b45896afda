"""Measure one study in two checkouts on one machine, launch by launch in turn, and compare: ``--help``.

Needs only Python; each side's own interpreter runs its own cross-backend.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

MOST_TURNS = 200
"""More launches no study has."""


class Side:
    """One of the two checkouts."""

    def __init__(self, name: str, python: str, folder: Path, study: Path, db: str) -> None:
        self.name, self.python, self.folder, self.study, self.db = name, python, folder, study, db

    def command(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run cross-backend in the checkout, whose own modules come first."""
        paths = filter(None, (str(self.folder), os.environ.get("PYTHONPATH")))
        return subprocess.run(
            [self.python, "-m", "cross_backend", *arguments],
            cwd=self.folder,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
            stdout=subprocess.PIPE,
            text=True,
            check=False,
        )

    def turn(self) -> None:
        """Measure one launch of every panel."""
        done = self.command("study", "run", str(self.study), "--pause", "--name", self.name, "--db", self.db, "--json")
        if done.returncode not in {0, 1}:  # 1: something is wrong or broke, which the comparison reports
            raise SystemExit(done.returncode)
        if "error" in json.loads(done.stdout or "{}"):
            raise SystemExit(1)

    def number(self) -> tuple[int, bool]:
        """Return the number of the study, and whether it is finished."""
        done = self.command("study", "status", self.name, "--db", self.db, "--json")
        row = json.loads(done.stdout)["studies"][-1]
        return int(row["id"]), row["finished"] is not None


def main() -> int:
    """Measure and compare; the exit status is that of ``study diff``."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("study", type=Path, help="study file, relative to each checkout")
    parser.add_argument("--base", type=Path, required=True, help="checkout of the old version")
    parser.add_argument("--head", type=Path, default=Path(), help="checkout of the new version (default: here)")
    parser.add_argument("--base-python", default=sys.executable, help="interpreter of the old version")
    parser.add_argument("--head-python", default=sys.executable, help="interpreter of the new version")
    parser.add_argument("--db", default="ab.sqlite", help="where samples are stored: the history")
    parser.add_argument("--fail-on", default="slower", choices=("never", "wrong", "slower", "cannot-tell"))
    parser.add_argument("--summary", type=Path, help="file to which the Markdown table is added")
    args = parser.parse_args()
    db = args.db if "://" in args.db else str(Path(args.db).resolve())
    base = Side("base", args.base_python, args.base.resolve(), args.study, db)
    head = Side("head", args.head_python, args.head.resolve(), args.study, db)
    left, turn = [base, head], 0
    while left:
        for side in left if turn % 2 == 0 else reversed(left):  # ABBA: what drifts meets both alike
            side.turn()
        left = [side for side in left if not side.number()[1]]
        turn += 1
        if turn == MOST_TURNS:
            print("ab.py: the studies do not end.", file=sys.stderr)
            return 1
    numbers = [str(side.number()[0]) for side in (base, head)]
    shown = head.command("study", "diff", *numbers, "--db", db, "--fail-on", args.fail_on, "--markdown")
    print(shown.stdout)
    if args.summary is not None:
        with args.summary.open("a", encoding="utf-8") as file:
            file.write(shown.stdout + "\n")
    return shown.returncode


if __name__ == "__main__":
    sys.exit(main())
