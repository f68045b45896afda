"""Layers: what each instruction took, with what bounds it and what the analytic model says, as rows."""

from __future__ import annotations

from dataclasses import dataclass

from atalla.device.analytic import estimate
from atalla.device.simulation import InstructionCounters, Simulation, Stalls


@dataclass(frozen=True)
class Layer:
    """A row of the layer table."""

    counters: InstructionCounters
    """What the simulation counted."""
    share: float
    """Of all cycles, from 0 to 1."""
    utilisation: float
    """Of the matrix unit's elements, from 0 to 1."""
    stall: str | None
    """What engines waited for most; None if they waited for nothing, and of the host."""
    bound: str | None
    """What has most to do; None of the host."""
    analytic: int | None
    """Cycles that the analytic model says; None of the host."""
    error: float | None
    """Its relative difference from the simulation; None of the host."""


def layers(simulation: Simulation) -> tuple[Layer, ...]:
    """Return a row for each instruction, in order."""
    estimates = {one.number: one for one in estimate(simulation)}
    found = []
    for one in simulation.instructions:
        share = one.cycles / simulation.cycles if simulation.cycles else 0.0
        utilisation = one.utilisation(simulation.hardware)
        guess = estimates.get(one.number)
        if guess is None:
            found.append(Layer(one, share, utilisation, None, None, None, None))
        else:
            stall = main_stall(one.stalls)
            found.append(Layer(one, share, utilisation, stall, guess.bound, guess.cycles, guess.error))
    return tuple(found)


def main_stall(stalls: Stalls) -> str | None:
    """Return what engines waited for most, or None."""
    names = stalls._asdict()
    most = max(names, key=lambda name: names[name])
    return most if names[most] else None
