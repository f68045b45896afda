"""Table: the evidence of each overload as JSON, small enough to be kept beside the code."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

TABLE = Path(__file__).parent / "evidence.json"


def table(rows: Sequence[Mapping[str, Any]], known: int) -> str:
    """Give the text of the file: what became of each overload, by element type, and of each of PyTorch's operators.

    ``known`` is how many operators PyTorch's table has.
    """
    overloads: dict[str, dict[str, dict[str, int]]] = {}
    for row in rows:
        for name, dtypes in row["overloads"].items():
            for dtype, counts in dtypes.items():
                into = overloads.setdefault(name, {}).setdefault(dtype, {})
                for kind, count in counts.items():
                    into[kind] = into.get(kind, 0) + count
    lines = [
        f"    {json.dumps(name)}: {json.dumps(found, sort_keys=True)}" for name, found in sorted(overloads.items())
    ]
    names = [
        f"    {json.dumps(row['operator'])}: {json.dumps(row['verdicts'], sort_keys=True)}"
        for row in sorted(rows, key=lambda row: str(row["operator"]))
    ]
    head = f'  "torch": {json.dumps(torch.__version__)},\n  "known": {known},\n'
    return (
        "{\n"
        + head
        + '  "overloads": {\n'
        + ",\n".join(lines)
        + '\n  },\n  "operators": {\n'
        + ",\n".join(names)
        + "\n  }\n}\n"
    )
