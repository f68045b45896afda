"""Cold start: where the time goes between starting a process and its first outputs, in nanoseconds.

It is taken whenever a target is opened alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cross_backend.instruments.instrument import Metrics
from cross_backend.measurement import Measurement

if TYPE_CHECKING:
    from cross_backend.bench.bench import Opened, Verified

TABLE = Metrics(
    "cold_start",
    "Cold start",
    {
        "process": "process start",  # to this package's first own line in it: interpreter and this package
        "import": "import",  # of the backend and the modules of its runtime
        "load": "load or compile",  # from asking the runtime to load to a session that is ready
        "first_inference": "first inference",  # binding the inputs comes before and is not in it
    },
)


def anatomy(opened: Opened, verified: Verified) -> tuple[Measurement, ...]:
    """Return one measurement a step of one start, of one round with one value.

    Nothing where something had been opened there before, and no first inference where the program had been called.
    """
    if not opened.cold:
        return ()
    steps = zip(TABLE.parts, (opened.process_ns, opened.import_ns, opened.load_ns, verified.first_ns), strict=True)
    return tuple(
        Measurement(f"{TABLE.prefix}.{step}", "ns", ((float(ns),),), (1,)) for step, ns in steps if ns is not None
    )
