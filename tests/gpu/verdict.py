"""Judge the study that check.sh ran: every row verified and measured, and the GPU's own figures in it."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

WANTED = ("memory.device", "energy.per_inference")


def lacks(row: dict[str, Any]) -> list[str]:
    """Return what a row of the study's JSON does not show."""
    if row["outcome"] != "OK":
        return [f"{row['outcome']}: {row['reason']}"]
    found = []
    if not row["error"] or row["error"]["verdict"] is not True or row["error"]["unproved"]:
        found.append(f"not proved: {row['error']}")
    if row["latency_ms"] is None or row["rank"] is None:
        found.append("not ranked")
    if row["coverage"] != 1 or not row["placement"]["inside"]:
        found.append("no placement")
    if "device=cuda" in row["target"]:
        if not (row["execution"] or {}).get("device", "").startswith("CUDA"):
            found.append(f"ran on {row['execution']}")
        metrics = {measured["metric"] for measured in row["measurements"]}
        found += [f"{name}: {row['not_measured'].get(name, 'not taken')}" for name in WANTED if name not in metrics]
    return found


def main(path: Path) -> int:
    """Print the rows and what they lack; return the exit status."""
    rows = json.loads(path.read_text())["results"]
    table = Table("model", "target", "rank", "median ms", "ratio", "max error", "device MB", "mJ", "lacks")
    failed = not rows
    for row in rows:
        missing = lacks(row)
        failed |= bool(missing)
        medians = {measured["metric"]: measured["median"] for measured in row["measurements"]}
        latency, ratio, error = row["latency_ms"] or {}, row["ratio"] or {}, row["error"] or {}
        figures = (
            row["rank"],
            latency.get("median"),
            ratio.get("value"),
            error.get("max_abs"),
            medians["memory.device"] / 1e6 if "memory.device" in medians else None,
            medians["energy.per_inference"] * 1e3 if "energy.per_inference" in medians else None,
        )
        shown = ["" if value is None else f"{value:.4g}" for value in figures]
        table.add_row(row["workload"], row["target"], *shown, "; ".join(missing))
    Console(width=200).print(table)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
