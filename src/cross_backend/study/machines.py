"""Machine classes: what a study asks of the machines of a cluster, and what machines advertise of themselves."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

from pydantic import BeforeValidator
from pydantic.dataclasses import dataclass

from cross_backend.machine import Machine
from cross_backend.study import fields
from cross_backend.study.checked import STRICT, Checked, Maybe, read_by

MEASURE = "measure"
"""Resource of a machine that measures: one, which a panel takes whole."""
PREPARE = "prepare"
"""Resource of a machine that captures and lowers, and never measures."""
NAME, PROCESSOR, ARCHITECTURE, PLACE = "machine:", "processor:", "architecture:", "place:"
"""How the names of resources begin that say what a machine is."""
ACCELERATOR = "accelerator_type:"
"""How Ray itself names the accelerators that it finds."""
SOME = 0.001
"""How much of such a resource a panel takes: any number of panels share it."""
_Text = Annotated[str, read_by(fields.text)]


def slug(text: str) -> str:
    """Return a text as a part of a resource's name: ``AMD EPYC 7763`` is ``amd-epyc-7763``."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")


@dataclass(frozen=True, config=STRICT)
class MachineClass(Checked):
    """Machines of a cluster that count as alike. Every panel of a study is measured once on each class."""

    where: ClassVar[str] = "a machine class"

    name: _Text
    """Name in results. Alone, it selects the machines that advertise this name."""
    processor: Maybe[_Text] = None
    """Model, as ``cross-backend node`` prints it."""
    architecture: Maybe[_Text] = None
    """``x86_64``, ``arm64``, …"""
    accelerator: Maybe[_Text] = None
    """As Ray names it: ``H100``."""
    place: Maybe[Annotated[str, read_by(fields.place)]] = None
    """A machine on a node's cable or network, at which the node measures: ``adb:SERIAL``, ``ssh://pi``."""

    @property
    def resources(self) -> dict[str, float]:
        """Return what a node must have to be of this class: name → how much a panel takes."""
        asked = {
            PROCESSOR: self.processor and slug(self.processor),
            ARCHITECTURE: self.architecture and slug(self.architecture),
            ACCELERATOR: self.accelerator,
            PLACE: self.place and slug(self.place),
        }
        found = {f"{kind}{value}": SOME for kind, value in asked.items() if value}
        return found or {f"{NAME}{slug(self.name)}": SOME}

    def includes(self, resources: Mapping[str, float]) -> bool:
        """Whether a node with these resources is of this class and measures."""
        return all(resources.get(name, 0) > 0 for name in (*self.resources, MEASURE))

    def __str__(self) -> str:
        """Return its name, and what is asked of its machines."""
        if list(self.resources) == [f"{NAME}{slug(self.name)}"]:
            return self.name
        return f"{self.name} ({', '.join(self.resources)})"


def _named(given: Any) -> Any:
    """Return a class that is given by its name alone."""
    return MachineClass(fields.text(given)) if isinstance(given, str) else given


AnyClass = Annotated[MachineClass, BeforeValidator(_named, json_schema_input_type=_Text | MachineClass)]
"""A class, or the name of one."""


def resources_of(machine: Machine, name: str, place: str | None = None, *, prepares: bool = False) -> dict[str, float]:
    """Return what a node advertises: how many of each resource.

    Args:
        machine: the node.
        name: what studies call it.
        place: of a machine at which the node measures instead of itself.
        prepares: whether it captures and lowers, and does not measure.
    """
    if prepares:
        return {PREPARE: 1}
    found: dict[str, float] = {f"{NAME}{slug(name)}": 1}
    if place is not None:
        return found | {f"{PLACE}{slug(place)}": 1, MEASURE: 1}
    return found | {f"{PROCESSOR}{slug(machine.cpu)}": 1, f"{ARCHITECTURE}{slug(machine.arch)}": 1, MEASURE: 1}
