"""Trace: all events of a simulation as JSON that Perfetto and Chrome show; a cycle is shown as a microsecond."""

from __future__ import annotations

from typing import Any

from atalla.device.simulation import ENGINES, Simulation

INSTRUCTIONS = len(ENGINES)
"""Thread of the instructions; those before are engines."""


def trace(simulation: Simulation) -> dict[str, Any]:
    """Return the document; the simulation has events."""
    threads = (*ENGINES, "instructions")
    found: list[dict[str, Any]] = [_named("process_name", 0, f"{simulation.hardware.name} (simulated)")]
    found += [_named("thread_name", number, name) for number, name in enumerate(threads)]
    for one in simulation.instructions:
        if one.cycles:
            args = {"number": one.number, "node": one.node, "line": one.line, "shape": list(one.shape)}
            found.append(_slice(INSTRUCTIONS, one.operation, (one.begin, one.begin + one.cycles), args))
    for event in simulation.events:
        if event.engine in ENGINES:
            args = {"instruction": event.instruction, "tile": event.tile, "bytes": event.bytes}
            args |= {"node": simulation.instructions[event.instruction].node}
            found.append(_slice(ENGINES.index(event.engine), event.kind, (event.begin, event.end), args))
    about = {"simulated": True, "unit": "1 us is 1 cycle", "hardware": simulation.hardware.document()}
    return {"traceEvents": found, "displayTimeUnit": "ns", "otherData": about}


def _named(kind: str, thread: int, name: str) -> dict[str, Any]:
    return {"ph": "M", "pid": 1, "tid": thread, "name": kind, "args": {"name": name}}


def _slice(thread: int, name: str, cycles: tuple[int, int], args: dict[str, Any]) -> dict[str, Any]:
    begin, end = cycles
    return {"ph": "X", "pid": 1, "tid": thread, "name": name, "ts": begin, "dur": end - begin, "args": args}
