"""Preparing: each workload is captured and lowered once, on a node that does not measure meanwhile."""

from __future__ import annotations

import contextlib
import pickle
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cross_backend._version import __version__
from cross_backend.study.launchers.cluster import Cluster
from cross_backend.study.launchers.launcher import PanelJob
from cross_backend.study.launchers.there import ToPrepare, by_value
from cross_backend.study.machines import MEASURE, PREPARE

if TYPE_CHECKING:
    import ray

RETRIES = 3
"""So often Ray tries again where a node dies."""
Wanted = tuple[str, int]
"""Workload and batch."""


@dataclass(frozen=True)
class _Ordered:
    ready: ray.ObjectRef[bytes]
    blobs: ray.ObjectRef[dict[str, bytes]]


class Preparing:
    """Orders what panels need, and forgets it when no panel needs it any more."""

    def __init__(self, cluster: Cluster, shared: str | None, jobs: Sequence[PanelJob]) -> None:
        """Prepare.

        Args:
            cluster: connected.
            shared: URL of the shared cache; None for Ray's object store.
            jobs: all panels.
        """
        import ray

        self._cluster, self._shared = cluster, shared
        # Made once: each new one is exported to the head, which may be gone.
        self._task = ray.remote(num_cpus=0, num_returns=2, max_retries=RETRIES)(by_value("prepare", __version__))
        self._left = Counter(_wanted(job) for job in jobs)
        self._ordered: dict[Wanted, _Ordered] = {}

    def of(self, job: PanelJob) -> tuple[Any, Any]:
        """Return references to what is prepared of a panel's workload: the description, and the bytes."""
        key = _wanted(job)
        if key not in self._ordered:
            asked = ToPrepare(job.spec, job.book.study.settings, self._shared)
            ready, blobs = self._task.options(**self._where(job)).remote(pickle.dumps(asked))
            self._ordered[key] = _Ordered(ready, blobs)
        found = self._ordered[key]
        return found.ready, found.blobs

    def is_ready(self, job: PanelJob) -> bool:
        """Whether a panel's workload is captured and lowered."""
        import ray

        found = self._ordered.get(_wanted(job))
        return found is not None and bool(ray.wait([found.ready], timeout=0, fetch_local=False)[0])

    def done(self, job: PanelJob) -> None:
        """Note that a panel was finished; what nobody needs any more is freed."""
        key = _wanted(job)
        self._left[key] -= 1
        if self._left[key] <= 0:
            self._ordered.pop(key, None)

    def forget(self, job: PanelJob) -> None:
        """Order it again at the next request."""
        self._ordered.pop(_wanted(job), None)

    def close(self) -> None:
        """End what is being prepared."""
        import ray

        for ordered in self._ordered.values():
            with contextlib.suppress(Exception):  # it is done, or the cluster is gone
                ray.cancel(ordered.ready, force=True)
        self._ordered.clear()

    def _where(self, job: PanelJob) -> dict[str, Any]:
        """Return what Ray needs to know: never beside a measurement, and a file's model where that file is."""
        found: dict[str, Any] = {"name": f"cross-backend prepares {job.spec.workload.name}"}
        if job.spec.workload.content is not None:
            import ray
            from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

            own = ray.get_runtime_context().get_node_id()
            found["scheduling_strategy"] = NodeAffinitySchedulingStrategy(node_id=own, soft=False)
            node = self._cluster.nodes.get(own)
            return found | {"resources": {MEASURE: 1} if node and node.resources.get(MEASURE) else {}}
        resource = PREPARE if self._cluster.usable(PREPARE) else MEASURE
        return found | {"resources": {resource: 1}, "label_selector": self._cluster.selector()}


def _wanted(job: PanelJob) -> Wanted:
    return job.spec.workload.name, job.spec.batch
