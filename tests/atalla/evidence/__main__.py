"""``python -m tests.atalla.evidence [NAME…]``: judge all operators, or those named, and write ``evidence.json``.

Operators that a run was ended before are done by the next one, unless ``--fresh`` is given: each is kept as a line of
``--log`` as soon as it is done. ``--shard 0/2`` does every second one.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path

from tests.atalla.evidence.cases import cases, is_claimed, operators
from tests.atalla.evidence.judge import judge
from tests.atalla.evidence.table import TABLE, table

BATCH = 80
"""Cases of one program."""
FEW = 2
"""Samples of operators that Atalla does not have itself; those that it has come first."""


def main() -> None:
    """Do it."""
    parser = argparse.ArgumentParser(prog="python -m tests.atalla.evidence", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="operators of torch's OpInfo table (default: all)")
    parser.add_argument("--samples", type=int, default=5, help="of float32, each in three layouts (default 5)")
    parser.add_argument("--others", type=int, default=2, help="of each other element type (default 2)")
    parser.add_argument(
        "--log", type=Path, default=Path("evidence.jsonl"), help="what is done (default evidence.jsonl)"
    )
    parser.add_argument("--shard", default="0/1", metavar="I/N", help="every N-th operator, from the I-th on")
    parser.add_argument("--fresh", action="store_true", help="begin anew")
    parser.add_argument("--claimed", action="store_true", help="only operators that Atalla has")
    given = parser.parse_args()
    known = operators()
    unknown = [name for name in given.names if name not in known]
    if unknown:
        sys.exit(f"torch has no operator {unknown[0]}")
    if given.fresh:
        given.log.unlink(missing_ok=True)
    done = {json.loads(line)["operator"] for line in lines(given.log)}
    first, count = map(int, given.shard.split("/"))
    chosen = given.names or [name for name, op in known.items() if is_claimed(op) or not given.claimed]
    for name in sorted(chosen, key=lambda name: (not is_claimed(known[name]), name))[first::count]:
        if name not in done:
            claimed = is_claimed(known[name])
            samples, others = (given.samples, given.others) if claimed else (FEW, 1)
            row = judged(name, samples=samples, others=others)
            with given.log.open("a") as log:
                log.write(json.dumps(row) + "\n")
            print(f"{name}: {row['verdicts']} in {row['seconds']} s", flush=True)
            for text in row["wrong"]:
                print(f"  wrong: {text}", flush=True)
    if not given.names and count == 1:
        TABLE.write_text(table([json.loads(line) for line in lines(given.log)], len(known)))


def lines(log: Path) -> list[str]:
    """Give what was done before."""
    return log.read_text().splitlines() if log.is_file() else []


def judged(name: str, *, samples: int, others: int) -> dict[str, object]:
    """Judge an operator."""
    began = time.perf_counter()
    found = list(cases(name, operators()[name], samples=samples, others=others))
    rows = [one for i in range(0, len(found), BATCH) for one in judge(found[i : i + BATCH])]
    verdicts: dict[str, int] = {}
    overloads: dict[str, dict[str, dict[str, int]]] = {}
    for one in rows:
        verdicts[one.verdict] = verdicts.get(one.verdict, 0) + 1
        for overload, kind in one.overloads.items():
            counts = overloads.setdefault(overload, {}).setdefault(one.case.dtype, {})
            counts[kind] = counts.get(kind, 0) + 1
    told = {
        f"{one.verdict} {one.case.dtype} {one.case.layout} {[list(t.shape) for t in one.case.tensors]}: {one.reason}"
        for one in rows
        if one.verdict in {"wrong", "untested", "refused"}
    }
    return {
        "operator": name,
        "verdicts": verdicts,
        "overloads": overloads,
        "wrong": sorted(one for one in told if one.startswith("wrong")),
        "other": sorted({one.partition(": ")[2] for one in told if not one.startswith("wrong")})[:5],
        "reasons": sorted({one.reason for one in rows if one.verdict == "fallback"}),
        "seconds": round(time.perf_counter() - began, 1),
    }


if __name__ == "__main__":
    main()
