"""Make ``plans.csv``: eleven hard problems of memory whose optimum is known, of the size of MiniMalloc's public ones.

A rectangle, all of 1 MiB for some hundred steps, is cut into buffers; at one step all of it stays in use, so that the
capacity is also the bound. Elsewhere some buffers are taken away and some are shortened, which leaves gaps.

python -m tests.atalla.make_plans
"""

from __future__ import annotations

import csv
import random
from pathlib import Path

CAPACITY = 1 << 20
GRAIN = 64
PROBLEMS = {
    "A": (150, 120, 0.2), "B": (170, 60, 0.05), "C": (190, 200, 0.5), "D": (210, 90, 0.5), "E": (230, 160, 0.6),
    "F": (250, 80, 0.5), "G": (280, 240, 0.5), "H": (310, 120, 0.35), "I": (340, 300, 0.5), "J": (380, 150, 0.75),
    "K": (450, 200, 0.05),
}  # fmt: skip
"""Buffers, steps, share of those that are taken away or shortened."""
Piece = tuple[int, int, int, int]
"""First step, step behind the last, first line, line behind the last."""


def cut(piece: Piece, chance: random.Random) -> tuple[Piece, Piece] | None:
    """Cut a piece in two, across time or across memory."""
    begin, end, low, high = piece
    across = chance.random() < 0.5
    if across and end - begin > 1:
        at = chance.randint(begin + 1, end - 1)
        return (begin, at, low, high), (at, end, low, high)
    if high - low > 1:
        at = low + max(1, min(high - low - 1, round((high - low) * chance.betavariate(2, 2))))
        return (begin, end, low, at), (begin, end, at, high)
    return None


def problem(name: str) -> list[tuple[int, int, int]]:
    """Give first step, step behind the last and bytes of each buffer."""
    count, steps, share = PROBLEMS[name]
    chance = random.Random(f"atalla {name}")
    pieces: list[Piece] = [(0, steps, 0, CAPACITY // GRAIN)]
    while len(pieces) < count:
        i = max(
            (chance.randrange(len(pieces)) for _ in range(4)),
            key=lambda i: (pieces[i][1] - pieces[i][0]) * (pieces[i][3] - pieces[i][2]),
        )
        parts = cut(pieces[i], chance)
        if parts:
            pieces[i : i + 1] = parts
    full = chance.randrange(steps)
    made = []
    for first, behind, low, high in pieces:
        begin, end = first, behind
        if not begin <= full < end and chance.random() < share:
            if end - begin < 3 or chance.random() < 0.3:
                continue
            begin, end = begin + chance.randrange(2), end - 1
        made.append((begin, end, (high - low) * GRAIN))
    chance.shuffle(made)
    return made


def main() -> None:
    """Write the file."""
    with Path(__file__).with_name("plans.csv").open("w", newline="") as file:
        rows = csv.writer(file, lineterminator="\n")
        rows.writerow(("problem", "lower", "upper", "size"))
        for name in PROBLEMS:
            rows.writerows((name, *row) for row in problem(name))


if __name__ == "__main__":
    main()
