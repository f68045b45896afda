"""Cold start: where the time goes between starting a process and its first outputs, in nanoseconds.

It is taken whenever a target is opened alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cross_backend.instruments.instrument import Metrics
from cross_backend.measurement import Measurement

if TYPE_CHECKING:
    from cross_backend.bench.bench import Opened, Verified

PREFIX = "cold_start."
STEPS = {
    "process": "from starting the process to this package's first own line in it: interpreter and this package",
    "import": "importing the backend and the modules of its runtime",
    "load": "from asking the runtime to load to a session that is ready; compiling too, where the runtime compiles",
    "first_inference": "the first call; binding the inputs comes before and is not in it",
}
"""Step → what is in it, in their order."""
TABLE = Metrics(
    "cold_start",
    "Cold start",
    {
        "process": "process start",
        "import": "import",
        "load": "load or compile",
        "first_inference": "first inference",
    },
)


def anatomy(opened: Opened, verified: Verified) -> tuple[Measurement, ...]:
    """Return one measurement a step of one start, of one round with one value.

    Nothing where something had been opened there before, and no first inference where the program had been called.
    """
    if not opened.cold:
        return ()
    steps = {
        "process": opened.process_ns,
        "import": opened.import_ns,
        "load": opened.load_ns,
        "first_inference": verified.first_ns,
    }
    return tuple(
        Measurement(PREFIX + step, "ns", ((float(ns),),), (1,)) for step, ns in steps.items() if ns is not None
    )
