"""A Ray cluster of node processes on this machine, and panels whose measuring is simulated on it."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from typing import Any

from cross_backend.measurement import Measurement
from cross_backend.records import Launch, Outcome, Result
from cross_backend.study.launchers.ray import RayLauncher

QUICK = {"health_check_period_ms": 500, "health_check_failure_threshold": 6, "health_check_initial_delay_ms": 0}
"""A node is dead after 3 s of silence; sooner, busy ones are."""
CALM, NOISY = 1.001, 1.6
"""How many times a target's latency another process of it takes."""


def advertised(name: str) -> dict[str, float]:
    return {f"machine:{name}": 1, "measure": 1}


def added(cluster: Any, name: str) -> Any:
    """Add a machine of a class; Ray's own patience with a new node is short where the host is busy."""
    for _ in range(3):
        with contextlib.suppress(Exception):
            return cluster.add_node(num_cpus=1, resources=advertised(name))
    raise AssertionError("no node starts")


@contextlib.contextmanager
def started(**head: Any) -> Iterator[Any]:
    """Start a head that measures nothing; nodes are added to it."""
    from ray.cluster_utils import Cluster

    folder = tempfile.mkdtemp(prefix="xb-", dir="/tmp")  # sockets lie in it, whose paths may have 107 characters
    before = os.environ.get("RAY_TMPDIR")
    os.environ["RAY_TMPDIR"] = folder
    given = {"num_cpus": 0, "include_dashboard": False, "_system_config": QUICK, **head}
    made = Cluster(initialize_head=True, head_node_args=given)
    try:
        yield made
    finally:
        made.shutdown()
        os.environ.pop("RAY_TMPDIR")
        os.environ |= {} if before is None else {"RAY_TMPDIR": before}
        shutil.rmtree(folder, ignore_errors=True)


class Simulated(RayLauncher):
    """Places and stores as the launcher does; nothing is captured, and a launch takes so many seconds."""

    def __init__(self, cluster: Any, seconds: float = 0.05, noisy: str = "") -> None:
        """Prepare; ``noisy`` is Ray's number of the node whose processes differ."""
        import ray

        super().__init__(cluster)
        self._panel = ray.remote(num_cpus=0, max_retries=0, num_returns="streaming")(_simulated(seconds, noisy))
        self._nothing = ray.put(b"")

    def _submit(self, preparing: Any) -> None:
        preparing.of = lambda _job: (self._nothing, self._nothing)
        super()._submit(preparing)


def _simulated(seconds: float, noisy: str) -> Any:
    """Return what a node does instead of measuring; Ray sends it with its code. A result's reason is its node."""
    rows = [_row(times) for times in (1.0, CALM, NOISY)]

    def call(pickled: bytes, *_prepared: Any) -> Iterator[Any]:
        import pickle
        import time
        from dataclasses import replace

        from cross_backend.study.launchers import events
        from cross_backend.study.launchers.there import describe, streamed

        asked = pickle.loads(pickled)
        spec = asked.spec

        def measure(tell: Any) -> None:
            facts = describe(spec.targets)
            tell(events.Begun(facts))
            if asked.stored.get(facts.kind.digest):  # its only launch
                return
            time.sleep(seconds)
            first, calm, loud = (replace(row, workload=spec.workload.name, reason=facts.node) for row in rows)
            tell(events.Launched(0, Launch((first,), loud if facts.node == noisy else calm, 0)))

        yield from streamed(measure)

    return call


def _row(times: float) -> Result:
    rounds = tuple((5000.0 * times, 5010.0 * times, 4990.0 * times) for _ in range(12))
    return Result("", "cpu", "CPU", Outcome.OK, latency=Measurement("latency", "ns", rounds, (12,)))
