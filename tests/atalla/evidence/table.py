"""Table: the evidence of each overload as JSON, small enough to be kept beside the code."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

TABLE = Path(__file__).parent / "evidence.json"
KINDS = ("native", "decomposed", "fallback", "refused", "wrong")


def table(rows: Sequence[Mapping[str, Any]]) -> str:
    """Give the text of the file: what became of each overload, by element type, and of each of PyTorch's operators."""
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
    return '{\n  "overloads": {\n' + ",\n".join(lines) + '\n  },\n  "operators": {\n' + ",\n".join(names) + "\n  }\n}\n"
