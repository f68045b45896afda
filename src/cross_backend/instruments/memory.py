"""Memory: the process that holds nothing but one target: its peak, its fair share, what it keeps after closing; bytes.

It closes the session, which the next use opens again, and comes first: other instruments need memory of their own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from cross_backend.backend import CallElsewhere
from cross_backend.bench.reading import Reading
from cross_backend.errors import UnsupportedError
from cross_backend.instruments.instrument import Instrument, Metrics, Pass
from cross_backend.measure import gpu, memory

if TYPE_CHECKING:
    from cross_backend.bench.open_artifact import OpenArtifact

TABLE = Metrics(
    "memory",
    "Memory",
    {"peak_rss": "peak RSS", "pss": "PSS", "retained": "retained after close", "device": "on the device"},
)


@dataclass(frozen=True)
class HeldMemory(Reading[dict[str, int | None]]):
    """What the process holds now, and after closing the session."""

    def read(self, artifact: OpenArtifact) -> dict[str, int | None]:
        """Return bytes; the session is closed afterwards.

        ``peak_rss``, the largest resident memory since just before loading; ``pss``, in which a page that n processes
        share counts 1/n, None where the system does not say; ``retained``, what is resident after closing the session,
        less what was before loading it.
        """
        if isinstance(artifact.run, CallElsewhere):
            raise UnsupportedError("it runs in other processes, whose memory is not read")
        peak, pss = memory.peak_rss_bytes(), memory.pss_bytes()
        artifact.close()
        memory.give_back_freed()
        return {"peak_rss": peak, "pss": pss, "retained": memory.rss_bytes() - artifact.baseline_bytes}


def _take(state: Pass) -> None:
    with state.attempt("memory.device"):  # before the session is closed
        state.keep("memory.device", "B", [gpu.memory_of(state.pid)])
    figures: dict[str, int | None] = {}
    for name in ("peak_rss", "pss", "retained"):
        metric = f"memory.{name}"
        if not figures:
            with state.attempt(metric):
                figures = state.bench.take(HeldMemory())
        value = figures.get(name)
        if value is not None:
            state.keep(metric, "B", [value])
        elif figures:
            state.absent[metric] = "not measurable here: this system does not report it"


MEMORY = Instrument("peak, shared and retained memory of the process, and its memory on GPUs", (1, 4), _take, (TABLE,))
