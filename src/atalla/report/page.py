"""Page: a simulation as one HTML file that needs no network, with sliders that work out what other devices take."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
from collections.abc import Sequence
from importlib import resources
from typing import Any

from atalla.device.hardware import Hardware
from atalla.device.simulation import Simulation, Stalls
from atalla.plain import plain
from atalla.report.layers import Layer, layers
from atalla.report.spans import timeline
from atalla.report.what_if import Grid

SCRIPTS = ("flowshop.js", "grid.js", "drawing.js", "stops.js", "roofline.js", "timeline.js", "page.js")
"""In the order in which they need each other."""
COLUMNS = {
    "number": "#",
    "operation": "operation",
    "node": "node",
    "cycles": "cycles",
    "share": "share",
    "used": "used",
    "in": "in",
    "out": "out",
    "stalls": "stalls",
    "bound": "bound",
    "analytic": "analytic",
    "differs": "differs",
}
"""Column of the layer table → its header."""
TEXTS = {"operation", "node", "stalls", "bound"}
"""Columns that hold no number."""


def page(model: str, simulation: Simulation, grid: Grid) -> str:
    """Return the file's text.

    Args:
        model: its name, or that of the blob.
        simulation: on the hardware that the page is about, with events.
        grid: the same program on other devices.
    """
    style, script = template("simulation.css"), "\n".join(map(template, SCRIPTS))
    found = timeline(simulation)
    rows = layers(simulation)
    texts = {
        "policy": _policy(style, script),
        "model": text_of(model),
        "hardware": text_of(hardware_line(simulation.hardware)),
        "verdict": text_of(_verdict(simulation)),
        "host": "The host computes a part of it, whose time is not in these cycles." if simulation.calls_host else "",
        "facts": "".join(
            f"<div><dt>{text_of(name)}</dt><dd>{text_of(value)}</dd></div>" for name, value in _facts(rows)
        ),
        "stops": text_of(_stops(grid)),
        "headers": "".join(_header(name, title) for name, title in COLUMNS.items()),
        "rows": "\n".join(map(_row, rows)),
        "merged": "Where an engine has too many micro-operations, several are one span." if found["merged"] else "",
        "style": style,
        "data": embedded(_document(simulation, grid, found)),
        "script": script,
    }
    return re.sub(r"\{\{(\w+)\}\}", lambda match: texts[match[1]], template("simulation.html.template"))


def template(name: str) -> str:
    """Return a file of the page's."""
    return (resources.files(__name__.rpartition(".")[0]) / "templates" / name).read_text(encoding="utf-8")


def text_of(value: str) -> str:
    """Return foreign text as HTML that shows it, and does nothing else."""
    return html.escape(plain(value))


def embedded(document: Any) -> str:
    """Return JSON that no script element ends in, whatever its texts are."""
    made = json.dumps(document, separators=(",", ":"), allow_nan=False)
    return made.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def hardware_line(hardware: Hardware) -> str:
    """Return what a device is made of, in one line."""
    return (
        f"{hardware.name}: {hardware.clock_mhz:,} MHz, array {hardware.array} × {hardware.array}, "
        f"two scratchpads of {hardware.scratchpad_bytes:,} bytes, DMA {hardware.dma_bytes_per_cycle:,} bytes a cycle "
        f"each way and {hardware.dma_latency_cycles:,} cycles a descriptor, {hardware.lanes:,} lanes"
    )


def _policy(style: str, script: str) -> str:
    """Return the content security policy: our style, our script, nothing else, and no network."""
    digests = [base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in (style, script)]
    return (
        f"default-src 'none'; style-src 'sha256-{digests[0]}'; script-src 'sha256-{digests[1]}'; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )


def _verdict(simulation: Simulation) -> str:
    return (
        f"{simulation.cycles:,} cycles, an estimate of {simulation.milliseconds:.3f} ms at "
        f"{simulation.hardware.clock_mhz:,} MHz; {simulation.utilisation:.1%} of the matrix unit"
    )


def _facts(rows: Sequence[Layer]) -> list[tuple[str, str]]:
    counters = [row.counters for row in rows]
    return [
        ("analytic model, cycles", f"{sum(row.analytic or 0 for row in rows):,}"),
        ("products", f"{sum(one.macs for one in counters):,}"),
        ("bytes loaded", f"{sum(one.in_bytes for one in counters):,}"),
        ("bytes stored", f"{sum(one.out_bytes for one in counters):,}"),
        ("tiles", f"{sum(one.tiles for one in counters):,}"),
        *((f"stalls: {name}", f"{sum(getattr(one.stalls, name) for one in counters):,}") for name in Stalls._fields),
    ]


def _stops(grid: Grid) -> str:
    refused = sum(isinstance(cell, str) for cell in grid.cells)
    if not refused:
        return f"There are {len(grid.cells)} of them."
    return f"There are {len(grid.cells)} of them; on {refused} the program does not run."


def _header(name: str, title: str) -> str:
    kind = "" if name in TEXTS else ' class="n"'
    return f'<th scope="col"{kind} data-column="{name}">{title}</th>'


def _row(layer: Layer) -> str:
    one = layer.counters
    cells = [one.operation, one.node]
    if one.is_host:
        cells += ["host", *[""] * (len(COLUMNS) - 4)]
    else:
        stalled = f"{layer.stall} {max(one.stalls):,}" if layer.stall else ""
        cells += [
            f"{one.cycles:,}",
            f"{layer.share:.1%}",
            f"{layer.utilisation:.1%}" if one.busy.matrix else "",
            f"{one.in_bytes:,}",
            f"{one.out_bytes:,}",
            stalled,
            layer.bound or "",
            f"{layer.analytic:,}",
            f"{layer.error or 0.0:+.1%}",
        ]
    kinds = [
        '<td class="name">' if name == "node" else "<td>" if name in TEXTS else '<td class="n">' for name in COLUMNS
    ]
    texts = "".join(f"{kind}{text_of(cell)}</td>" for kind, cell in zip(kinds[1:], cells, strict=True))
    return f'<tr><th scope="row" class="n">{one.number}</th>{texts}</tr>'


def _document(simulation: Simulation, grid: Grid, found: dict[str, Any]) -> dict[str, Any]:
    """Return what the page's script works with."""
    hardware = simulation.hardware
    return {
        "schema": 1,
        "hardware": {**hardware.document(), "name": plain(hardware.name)},
        "instructions": [
            [plain(one.operation), plain(one.node), plain(one.line), list(one.shape), one.dtype, one.is_host]
            for one in simulation.instructions
        ],
        "axes": grid.axes,
        "base": grid.base,
        "tiles": grid.tiles,
        "lists": grid.lists,
        "records": grid.records,
        "cells": [plain(cell) if isinstance(cell, str) else cell for cell in grid.cells],
        "timeline": found,
    }
