"""Localize the seeded faults: how many are found in their operator or its group, and in how many lowerings.

python benchmarks/localize.py [--targets cpu,openvino,portable,xnnpack] [--networks "mlp;attention"] [--budget SECONDS]

Each fault of benchmarks/seeded_faults.py that a target shows is localised: parts of the wrong program are lowered in
place of parts of the right one. A row says how many were found where they are. Unsure answers are listed, as are sure
ones that name another place. The last lines are the lowerings that were used against the bound.
"""

from __future__ import annotations

import argparse
import contextlib
import random
import sys
import tempfile
import time
import warnings
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from _table import show
from seeded_faults import FAULTS, NETWORKS, TARGETS, copied, differs, mutants, stored

from cross_backend.cache import Cache
from cross_backend.comparison.settings import Settings
from cross_backend.errors import CrossBackendError
from cross_backend.localization.found import Culprit, Localized
from cross_backend.localization.localize import localize
from cross_backend.program.capture import capture
from cross_backend.program.captured import Captured
from cross_backend.program.flattening import flatten

LEAST = 0.95
"""Smallest share of faults that are to be found."""


def place_of(program: Any, mutant: Any) -> set[str]:
    """Return the operators that a mutant changes, by its arguments, its target or a weight that it takes."""
    changed = {
        name
        for name, weight in program.state_dict.items()
        if not torch.equal(weight.detach(), mutant.state_dict[name].detach())
    }
    holders = {node for node, target in program.graph_signature.inputs_to_parameters.items() if target in changed}
    found = set()
    for right, wrong in zip(program.graph.nodes, mutant.graph.nodes, strict=True):
        inputs = {one.name for one in right.all_input_nodes}
        if right.target is not wrong.target or str(right.args) != str(wrong.args) or inputs & holders:
            found.add(right.name)
        if str(right.kwargs) != str(wrong.kwargs):
            found.add(right.name)
    return found


@dataclass
class Tally:
    """What was found, by kind of fault and target."""

    rows: dict[str, dict[str, list[int]]] = field(
        default_factory=lambda: defaultdict(lambda: defaultdict(lambda: [0, 0]))
    )
    unsure: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    used: list[int] = field(default_factory=list)
    over: int = 0

    def add(self, kind: str, target: str, what: str, places: set[str], found: Localized) -> None:
        """Count one fault."""
        named = {one.node for one in found.operators}
        is_found = found.is_sure and bool(named & places)
        self.rows[kind][target][1] += 1
        self.rows[kind][target][0] += is_found
        self.used.append(found.lowerings)
        self.over += found.lowerings > found.bound
        if not is_found:
            text = f"{what} on {target}: {found.culprit} {sorted(named)}, planted in {sorted(places)}"
            (self.wrong if found.is_sure else self.unsure).append(text)

    def show(self, targets: list[str], seconds: float) -> bool:
        """Print the table; return whether enough was found, nothing in a wrong place and all within the bound."""
        counts = [count for row in self.rows.values() for count in row.values()]
        right, total = sum(one[0] for one in counts), sum(one[1] for one in counts)
        share = right / max(total, 1)
        title = f"{right} of {total} faults localised to the operator or its group, {share:.1%}, {seconds:.0f} s"
        rows = [
            (kind, *(f"{row[one][0]} of {row[one][1]}" if row[one][1] else "–" for one in targets))
            for kind, row in self.rows.items()
        ]
        show(title, ("fault", *targets), rows, name="localize")
        mean = sum(self.used) / max(len(self.used), 1)
        print(f"lowerings: {mean:.1f} on average, {max(self.used, default=0)} at most; {self.over} above the bound")
        print(f"said to be unsure: {len(self.unsure)}", *self.unsure, sep="\n  ")
        print(f"sure and in a wrong place: {len(self.wrong)}", *self.wrong, sep="\n  ")
        print(f"not searched: {len(self.failed)}", *self.failed, sep="\n  ")
        return share >= LEAST and not self.wrong and not self.over


def seed(
    right: Captured, program: Any, inputs: Any, name: str, number: int, args: Any, cache: Cache, tally: Tally
) -> None:
    """Localise each fault of each kind that can be seeded into a program."""
    for at, kind in enumerate(FAULTS):
        for mutant in mutants(program, kind, random.Random(number)):
            if time.time() > args.until or not differs(program, mutant, inputs):
                continue
            try:
                wrong = stored(mutant, f"net{number}_{at}", cache.root)
            except Exception:  # what torch itself refuses is no program
                continue
            for target in args.targets.split(","):
                what = f"{kind} in {name!r}"
                try:
                    found = localize(right, target, cache=cache, settings=Settings(), lowered=wrong)
                except CrossBackendError as error:
                    tally.failed.append(f"{what} on {target}: {str(error)[:100]}")
                    continue
                if found.culprit is Culprit.NOTHING or found.crash:
                    continue  # nothing of the sample shows it, or the target does not take the right program either
                tally.add(kind, target, what, place_of(program, mutant), found)


def main() -> int:
    """Seed faults, localise them, and print how many were found."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--targets", default=",".join(TARGETS))
    parser.add_argument("--networks", help="names, with semicolons; all where not given")
    parser.add_argument("--budget", type=float, default=1e9, metavar="SECONDS", help="begin no further fault after")
    args = parser.parse_args()
    args.until = time.time() + args.budget
    warnings.simplefilter("ignore")
    tally, started = Tally(), time.time()
    chosen = args.networks.split(";") if args.networks else list(NETWORKS)
    with tempfile.TemporaryDirectory() as scratch:
        for number, (name, make) in enumerate(NETWORKS.items()):
            if name not in chosen:
                continue
            torch.manual_seed(number)
            module, inputs = make()
            program = copied(flatten(capture(module, inputs)))  # with the names that mutants have
            cache = Cache(Path(scratch) / f"cache{number}")
            cache.root.mkdir()
            with contextlib.suppress(KeyboardInterrupt):
                seed(stored(program, f"net{number}", cache.root), program, inputs, name, number, args, cache, tally)
    return 0 if tally.show(args.targets.split(","), time.time() - started) else 1


if __name__ == "__main__":
    sys.exit(main())
