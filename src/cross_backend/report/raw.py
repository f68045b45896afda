"""Raw samples inside a page: compact, harmless whatever the names are, and decoded by the page itself.

A series is its samples as little-endian unsigned 32-bit integers (nanoseconds), or as 64-bit floats where they do not
fit; the bytes are regrouped into planes (all first bytes, all second bytes, …), because the high ones hardly change;
then zlib (RFC 1950), then Base64.
"""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Iterator, Sequence

from cross_backend.measurement import Measurement
from cross_backend.report.distributions import array
from cross_backend.report.views import View

_LEVEL = 4
"""Of compression: the lowest bytes are noise, on which more effort is wasted."""


def encoded(measurement: Measurement) -> tuple[str, str]:
    """Return the kind of numbers, ``u4`` or ``f8``, and the samples."""
    import numpy as np

    samples = array(measurement)
    whole = samples.dtype.kind in "iu" or bool((np.isfinite(samples) & (samples == np.floor(samples))).all())
    small = not len(samples) or (float(samples.min()) >= 0 and float(samples.max()) < 2**32)
    kind = "u4" if whole and small else "f8"
    plain = np.ascontiguousarray(samples, dtype=f"<{kind}")
    planes = plain.view(np.uint8).reshape(-1, plain.itemsize).T
    return kind, base64.b64encode(zlib.compress(planes.tobytes(), _LEVEL)).decode("ascii")


def index(views: Sequence[View]) -> str:
    """Return what the page must know of the series, as JSON that may stand in a script element."""
    panels = [
        {
            "key": view.key,
            "label": view.label,
            "workload": view.panel.workload,
            "batch": view.panel.batch,
            "threads": view.panel.settings.get("threads"),
            "series": [
                {"id": name, "title": title, "rounds": [len(row) for row in latency.rounds]}
                for name, title, latency in _series(view)
            ],
        }
        for view in views
    ]
    text = json.dumps([panel for panel in panels if panel["series"]], separators=(",", ":"), default=str)
    # "</script>" and "<!--" would end or change the element that it stands in.
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _series(view: View) -> Iterator[tuple[str, str, Measurement]]:
    """Return (name in the page, title, samples) of each series of a panel."""
    for number, row in enumerate(view.rows):
        if row.distribution is not None and row.result.latency is not None:
            yield f"raw-{view.key}-{number}", row.label, row.result.latency


def blocks(views: Sequence[View]) -> Iterator[tuple[str, str, str]]:
    """Return (name, kind, samples) of one series after another, so that only one is held at a time."""
    for view in views:
        for name, _, latency in _series(view):
            yield name, *encoded(latency)
