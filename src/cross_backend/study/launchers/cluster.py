"""Cluster: connects to Ray, and knows which nodes take part in a study, and why others do not."""

from __future__ import annotations

import contextlib
import logging
import os
import socket
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from cross_backend._version import __version__
from cross_backend.errors import PlaceError, UnavailableError, UsageError, one_line
from cross_backend.study.launchers.events import NodeFacts
from cross_backend.study.launchers.there import by_value
from cross_backend.study.machines import MEASURE, NAME, PREPARE, MachineClass

CONNECT_S = 5.0
"""Longest wait for the head of a cluster to take a connection."""
DESCRIBE_S = 120.0
"""Longest wait until a node has described itself: it imports our package first."""
GREETING = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes.fromhex("000000040000000000")
"""What a gRPC client sends first. A server answers with a frame of the same type, settings."""
SETTINGS = b"\x04"
"""Type of that frame, its fourth byte."""
HEAD_TRIES = 5
"""So often in a row a head does not answer until it is given up."""


@dataclass
class ClusterNode:
    """A node that advertises that it measures or prepares."""

    number: str
    """Ray's, 56 hexadecimal digits."""
    address: str
    resources: Mapping[str, float]
    alive: bool
    facts: NodeFacts | None = None
    at_work: NodeFacts | None = None
    """With the machine at its place, where it has one; None before its first panel."""

    @property
    def name(self) -> str:
        """What messages call it."""
        names = [one.removeprefix(NAME) for one in self.resources if one.startswith(NAME)]
        return f"{' '.join(names) or 'node'} ({self.address}, {self.number[:6]})"


@dataclass
class Cluster:
    """The nodes of a cluster."""

    address: str
    """Of its head."""
    nodes: dict[str, ClusterNode] = field(default_factory=dict)
    """By number; those that are gone, too."""
    excluded: dict[str, str] = field(default_factory=dict)
    """Number → why a node takes no part any more."""
    _silent: int = 0

    def look(self) -> None:
        """See which nodes are there now.

        Raises:
            PlaceError: the head does not answer any more.
        """
        import ray

        if not answers(self.address):
            self._silent += 1
            if self._silent >= HEAD_TRIES:
                raise PlaceError(
                    f"the head of the cluster ({self.address}) does not answer any more. Finished work is stored; "
                    "the same command resumes when the cluster is back."
                )
            return
        self._silent = 0
        for row in ray.nodes():
            number, resources = str(row["NodeID"]), dict(row.get("Resources") or {})
            if number in self.nodes:
                self.nodes[number].alive = bool(row["Alive"])
            elif row["Alive"] and (resources.keys() & {MEASURE, PREPARE}):
                self.nodes[number] = ClusterNode(number, str(row["NodeManagerAddress"]), resources, alive=True)

    def describe(self, targets: Sequence[str]) -> None:
        """Let every node describe itself; one that has another version, or not our package, is excluded."""
        import ray
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        asked = {}
        for number in [one.number for one in self.nodes.values() if one.alive and one.number not in self.excluded]:
            there = NodeAffinitySchedulingStrategy(node_id=number, soft=False)
            task = ray.remote(num_cpus=0, max_retries=0, scheduling_strategy=there)(by_value("describe", __version__))
            asked[task.remote(list(targets))] = number
        waiting = list(asked)
        answered, silent = ray.wait(waiting, num_returns=len(waiting), timeout=DESCRIBE_S) if waiting else ([], [])
        for reference in silent:
            ray.cancel(reference, force=True)
            self.excluded[asked[reference]] = f"it does not answer within {DESCRIBE_S:.0f} s"
        for reference in answered:
            number = asked[reference]
            try:
                found = ray.get(reference)
            except ray.exceptions.RayError as error:
                self.excluded[number] = one_line(error)
                continue
            if isinstance(found, NodeFacts):
                self.nodes[number].facts = found
            else:
                self.excluded[number] = str(found[1])

    def known(self, facts: NodeFacts) -> NodeFacts:
        """Return what a node said of itself before, where it says the same now: its digest is computed once."""
        node = self.nodes.get(facts.node)
        if node is None:
            return facts
        if node.at_work != facts:
            node.at_work = facts
        return node.at_work

    def usable(self, resource: str = MEASURE) -> list[ClusterNode]:
        """Return the nodes that take part and have a resource."""
        return [
            node
            for node in self.nodes.values()
            if node.alive and node.number not in self.excluded and node.resources.get(resource, 0) > 0
        ]

    def of(self, machine: MachineClass) -> list[ClusterNode]:
        """Return the nodes of a class that measure and take part."""
        return [node for node in self.usable() if machine.includes(node.resources)]

    def classes(self, asked: Iterable[MachineClass]) -> tuple[MachineClass, ...]:
        """Return the classes of a study: those asked for, else one for every name that nodes advertise.

        Raises:
            UsageError: a class has no machine that takes part.
        """
        names = sorted({one for node in self.usable() for one in node.resources if one.startswith(NAME)})
        found = tuple(asked) or tuple(MachineClass(name.removeprefix(NAME)) for name in names)
        for machine in found:
            if not self.of(machine):
                raise UsageError(f"machines: no machine of class {machine} takes part. {self._there()}")
        if not found:
            raise UsageError(f"no node of the cluster at {self.address} measures. {self._there()}")
        return found

    def _there(self) -> str:
        """Say what there is, and why some of it takes no part."""
        names = sorted({name for node in self.usable() for name in node.resources if ":" in name and _is_ours(name)})
        texts = [f"There: {', '.join(names)}." if names else "There is none."]
        texts += [f"{self.name(number)} is refused: {why}." for number, why in self.excluded.items()]
        return " ".join([*texts, "Start one: cross-backend node --name NAME --join ADDRESS"])

    def name(self, number: str) -> str:
        """Return what messages call a node."""
        return self.nodes[number].name if number in self.nodes else f"node {number[:6]}"

    def selector(self) -> dict[str, str]:
        """Return the label selector that keeps tasks from excluded nodes."""
        dead = [number for number in self.excluded if number not in self.nodes or self.nodes[number].alive]
        return {"ray.io/node-id": f"!in({','.join(dead)})"} if dead else {}


def _is_ours(resource: str) -> bool:
    return resource.split(":", maxsplit=1)[0] in {"machine", "processor", "architecture", "accelerator_type", "place"}


@contextlib.contextmanager
def connected(address: str | None) -> Iterator[Cluster]:
    """Connect to a cluster; every task of ours there ends with the context.

    Args:
        address: ``HOST:PORT`` of its head; where None, ``RAY_ADDRESS`` of the environment, or the one of this machine.

    Raises:
        UnavailableError: Ray is not installed.
        PlaceError: nothing answers, or a cluster of another version.
    """
    for name, value in (("RAY_BACKEND_LOG_LEVEL", "fatal"), ("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")):
        os.environ.setdefault(name, value)
    try:
        import ray
    except ImportError as error:
        remedy = "install it with: pip install 'cross-backend[ray]'"
        raise UnavailableError("Ray is not installed", remedy) from error
    asked = address or os.environ.get("RAY_ADDRESS") or "auto"
    if "://" in asked:
        raise UsageError(
            f"{asked} is an address of Ray's client, through which no launches can stream. Give HOST:PORT, on a "
            "machine that joined the cluster, or submit the command with 'ray job submit'."
        )
    if asked != "auto" and not answers(asked):
        raise PlaceError(
            f"no Ray cluster answers at {asked}. Start one there with 'ray start --head', or look at its address: "
            "ray status"
        )
    _silence(ray)
    try:
        with _muted():
            found = ray.init(address=asked, log_to_driver=False, logging_level=logging.ERROR, configure_logging=True)
    except ConnectionError as error:
        if asked == "auto":
            raise PlaceError(
                'no Ray cluster runs on this machine. Start one: ray start --head --resources "$(cross-backend node)"'
                ", or name another: --address HOST:PORT"
            ) from error
        raise PlaceError(f"no Ray cluster can be joined at {asked} ({one_line(error)}).") from error
    except Exception as error:
        raise PlaceError(_refusal(asked, error)) from error
    try:
        yield Cluster(str(found.address_info["gcs_address"]))
    finally:
        with contextlib.suppress(Exception):
            ray.shutdown()


@contextlib.contextmanager
def _muted() -> Iterator[None]:
    """Keep from the terminal what Ray's native code prints while it starts: that its level of logging was set."""
    sys.stderr.flush()
    kept, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)


def _refusal(asked: str, error: Exception) -> str:
    """Say why a cluster cannot be used: its versions, mostly."""
    text = " ".join(str(error).split())
    if "ersion" in text and "mismatch" in text:
        return (
            f"the cluster at {asked} is of another version: {text[:400]} Install the same Ray and Python here or there."
        )
    return f"the cluster at {asked} cannot be used: {one_line(error)}"


def answers(address: str) -> bool:
    """Whether a gRPC server answers at ``HOST:PORT``, as a cluster's head is one.

    Ray itself waits for minutes where something else takes the connection.
    """
    host, _, port = address.rpartition(":")
    try:
        with socket.create_connection((host.strip("[]") or "127.0.0.1", int(port)), CONNECT_S) as connection:
            if os.environ.get("RAY_USE_TLS", "0") == "1":
                return True
            connection.sendall(GREETING)
            with connection.makefile("rb") as answer:
                return answer.read(4)[3:] == SETTINGS
    except (OSError, ValueError):
        return False


def _silence(module: Any) -> None:
    """Keep Ray from printing pages about each process that died; we say in one line what it means."""
    worker = getattr(getattr(module, "_private", None), "worker", None)
    if worker is not None and hasattr(worker, "print_to_stdstream"):
        worker.print_to_stdstream = lambda *_given, **_named: None
