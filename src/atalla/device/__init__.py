"""Device: what a simulated accelerator is made of, and what running a program on it took."""

from __future__ import annotations

from atalla.device.analytic import InstructionEstimate, estimate
from atalla.device.hardware import Hardware, read_hardware
from atalla.device.options import DeviceOptions, MatrixUnit
from atalla.device.simulation import Event, InstructionCounters, Simulation, Stalls, TileCost

__all__ = [
    "DeviceOptions",
    "Event",
    "Hardware",
    "InstructionCounters",
    "InstructionEstimate",
    "MatrixUnit",
    "Simulation",
    "Stalls",
    "TileCost",
    "estimate",
    "read_hardware",
]
