"""Break the tree on purpose, one mutant of mutants.toml at a time, and tell which tests notice.

python -m tests.mutants [NAME …] [--json FILE] [--list] [--jobs N] [--no-check-clean]
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from xml.etree import ElementTree as ET

ROOT = Path(__file__).parents[2]
KERNELS, LIBRARY = "src/atalla/csrc/", "src/atalla/libatalla.*"
NO_PROOF = ("ImportError", "ModuleNotFoundError", "SyntaxError")  # the mutant cannot even be loaded


@dataclass(frozen=True)
class Mutant:
    """One thing broken on purpose."""

    name: str
    file: str
    old: str  # exactly once in it
    new: str
    why: str  # what a user would suffer
    tests: tuple[str, ...]  # where it should be noticed: files, or file::test

    def apply(self, root: Path) -> None:
        """Break a copy of the tree."""
        path = root / self.file
        text = path.read_text()
        found = text.count(self.old)
        if found != 1:
            raise ValueError(f"what it replaces is {found} times in {self.file}")
        changed = text.replace(self.old, self.new)
        if path.suffix == ".py":
            compile(changed, self.file, "exec")
        path.write_text(changed)


@dataclass(frozen=True)
class Verdict:
    """How one mutant ended."""

    name: str
    file: str
    caught_by: tuple[str, ...]  # ids of the tests that failed with it, and pass without
    seconds: float
    error: str | None = None  # why nothing can be said about it

    @property
    def first(self) -> str:
        """The first of the tests, or what stands in its place."""
        return f"ERROR: {self.error}" if self.error else self.caught_by[0] if self.caught_by else "SURVIVED"

    def __str__(self) -> str:
        count = len(self.caught_by)
        how = f"caught by {count} test{'s' * (count > 1)} in {self.seconds:.0f} s: " if count else ""
        return how + self.first


def read_mutants() -> list[Mutant]:
    """Read the list."""
    rows = tomllib.loads(Path(__file__).with_name("mutants.toml").read_text())["mutant"]
    return [Mutant(**{**row, "tests": tuple(row["tests"])}) for row in rows]


def copy_tree(folder: Path) -> None:
    """Copy what git has or would take, and the built kernels."""
    listed = subprocess.run(
        ["git", "ls-files", "-coz", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    for source in [*(ROOT / name for name in listed.stdout.split("\0") if name), *ROOT.glob(LIBRARY)]:
        if source.is_file():  # one that was deleted is listed until that is committed
            place = folder / source.relative_to(ROOT)
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, place)


def run_tests(root: Path, tests: Sequence[str], *, build: bool, setup_counts: bool = True) -> list[str]:
    """Run these tests in a copy of the tree; give the ids of those that failed, in their order.

    Raises:
        ValueError: no test could be run, so that nothing can be said.
    """
    variables = dict(os.environ)
    variables["PYTHONPATH"] = os.pathsep.join(filter(None, (str(root / "src"), variables.get("PYTHONPATH"))))
    variables["CROSS_BACKEND_CACHE"] = str(root.parent / "cache")

    def python(*arguments: str, fine: Sequence[int]) -> tuple[int, str]:
        command = [sys.executable, "-m", *arguments]
        done = subprocess.run(command, cwd=root, env=variables, capture_output=True, text=True, check=False)
        last = (done.stdout + done.stderr).strip()[-500:]
        if done.returncode not in fine:
            raise ValueError(f"{arguments[0]} ended with status {done.returncode}: {last}")
        return done.returncode, last

    if build or not list(root.glob(LIBRARY)):
        python("atalla.build", fine=[0])
    report = root.parent / "report.xml"
    quiet = ("-q", "-m", "not slow and not nightly", "-p", "no:cacheprovider", "-n", "0", "-o", "junit_family=xunit1")
    places = (f"--junitxml={report}", f"--basetemp={root.parent / 'tmp'}")
    status, last = python("pytest", *quiet, *places, *tests, fine=[0, 1])  # 2: not collected; 4: no such test; 5: none
    cases = list(ET.parse(report).iter("testcase"))
    if all(case.find("skipped") is not None for case in cases):
        raise ValueError("no test was run")
    failed = []
    for case in cases:
        fault = case.find("failure") if case.find("failure") is not None or not setup_counts else case.find("error")
        if fault is not None and not str(fault.get("message")).startswith(NO_PROOF):
            failed.append(f"{case.get('file')}::{case.get('name')}")
    if status and not failed:
        raise ValueError(f"the tests failed before they began: {last}")
    return failed


def clean_failures(mutants: Sequence[Mutant]) -> frozenset[str]:
    """Give the ids of the tests that fail without any mutant."""
    tests = sorted({test for mutant in mutants for test in mutant.tests})
    whole = [test for test in tests if "::" not in test or test.partition("::")[0] not in tests]
    with tempfile.TemporaryDirectory(prefix="clean-") as folder:
        root = Path(folder) / "tree"
        copy_tree(root)
        return frozenset(run_tests(root, whole, build=False))


def judge(mutant: Mutant, failing: frozenset[str]) -> Verdict:
    """Run a mutant's tests with it, in a copy of the tree."""
    started, error = time.monotonic(), None
    caught: tuple[str, ...] = ()
    with tempfile.TemporaryDirectory(prefix="mutant-") as folder:
        root = Path(folder) / "tree"
        copy_tree(root)
        try:
            mutant.apply(root)
            # The runner is built by a fixture: an error there says that it could not be built.
            counts = not mutant.file.startswith("runner/")
            found = run_tests(root, mutant.tests, build=mutant.file.startswith(KERNELS), setup_counts=counts)
            caught = tuple(test for test in found if test not in failing)
        except (ValueError, SyntaxError) as fault:
            error = " ".join(str(fault).split())
    return Verdict(mutant.name, mutant.file, caught, time.monotonic() - started, error)


def main(arguments: Sequence[str] | None = None) -> int:
    """Judge mutants; 0 where every one was caught."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="mutants (default: all)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the result there, too")
    parser.add_argument("--list", action="store_true", help="list the mutants and stop")
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="mutants at a time (default: 1)")
    told = "first run all these tests on the unchanged tree; what fails there does not count"
    parser.add_argument("--check-clean", action=argparse.BooleanOptionalAction, default=True, help=told)
    options = parser.parse_args(arguments)
    mutants = read_mutants()
    unknown = set(options.names) - {mutant.name for mutant in mutants}
    if unknown:
        parser.error(f"no such mutant: {', '.join(sorted(unknown))}")
    chosen = [mutant for mutant in mutants if not options.names or mutant.name in options.names]
    width = max(len(mutant.name) for mutant in chosen)
    if options.list:
        for mutant in chosen:
            print(f"{mutant.name:{width}}  {mutant.file}: {mutant.why}")
        return 0
    failing: frozenset[str] = frozenset()
    if options.check_clean:
        started = time.monotonic()
        failing = clean_failures(chosen)
        told = f"{len(failing)} fail and do not count: {', '.join(sorted(failing))}" if failing else "all pass"
        print(f"without a mutant ({time.monotonic() - started:.0f} s): {told}", flush=True)
    verdicts: list[Verdict] = []
    with ThreadPoolExecutor(max(1, options.jobs)) as pool:
        for verdict in pool.map(lambda mutant: judge(mutant, failing), chosen):
            verdicts.append(verdict)
            print(f"{verdict.name:{width}}  {verdict}", flush=True)
    print(f"\n{'mutant':{width}}  tests  seconds  first")
    for verdict in verdicts:
        print(f"{verdict.name:{width}}  {len(verdict.caught_by):5}  {verdict.seconds:7.0f}  {verdict.first}")
    caught = sum(bool(verdict.caught_by) for verdict in verdicts)
    print(f"{caught} of {len(verdicts)} were caught")
    if options.json is not None:
        rows = {"clean_failures": sorted(failing), "mutants": [asdict(verdict) for verdict in verdicts]}
        options.json.write_text(json.dumps(rows, indent=2) + "\n")
    return int(caught < len(verdicts))


if __name__ == "__main__":
    sys.exit(main())
