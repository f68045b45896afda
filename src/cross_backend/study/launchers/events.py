"""Events: what a node reports to the driver of a panel, in this order: begun, records and progress, how it ended.

They travel in lists: what happens at about the same time is one object of Ray's.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

from cross_backend.errors import CrossBackendError
from cross_backend.machine import Machine
from cross_backend.records import Further, Launch
from cross_backend.study.kinds import MachineKind

REFUSED = "refused"
"""First of a pair whose second says why a node does not take part; no class, for our package may be absent there."""


@dataclass(frozen=True)
class NodeFacts:
    """A node of a cluster as it describes itself."""

    node: str
    """Ray's number of it."""
    address: str
    machine: Machine
    """What measures: the node, or the machine at its place."""
    versions: dict[str, str]

    @functools.cached_property
    def kind(self) -> MachineKind:
        """What its launches may be joined with."""
        return MachineKind(self.machine, self.versions)


@dataclass(frozen=True)
class Begun:
    """A node began with a panel."""

    facts: NodeFacts


@dataclass(frozen=True)
class Launched:
    """A launch is whole."""

    index: int
    launch: Launch


@dataclass(frozen=True)
class Taken:
    """The further instruments of a target were taken."""

    target: int
    title: str
    further: Further


@dataclass(frozen=True)
class Doing:
    """What is being done."""

    text: str
    share: float


@dataclass(frozen=True)
class Ended:
    """The panel needs nothing more."""


@dataclass(frozen=True)
class Failed:
    """The panel cannot go on there."""

    error: CrossBackendError
    node_is_bad: bool = False
    """Whether the node is the reason: its disk is full, its cable is loose."""
    is_unprepared: bool = False
    """Whether a node of another version was asked to capture and lower."""


Event = Begun | Launched | Taken | Doing | Ended | Failed
KEPT = (Launched, Taken, Ended)
"""Those that are stored."""
