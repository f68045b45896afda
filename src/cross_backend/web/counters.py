"""Counters: what the server counts, as Prometheus reads it (text format 0.0.4)."""

from __future__ import annotations

import bisect
import threading
from collections.abc import Iterator, Mapping

BOUNDS_S = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)
"""Upper bounds of the histogram's buckets, seconds."""
_MOST_SERIES = 1000
"""Series of one name: labels may come from file names."""

Labels = tuple[tuple[str, str], ...]


class Counters:
    """Counters and histograms; threads may count at once."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: dict[str, dict[Labels, float]] = {}
        self._durations: dict[str, dict[Labels, list[float]]] = {}

    def count(self, name: str, **labels: str) -> None:
        """Count one."""
        with self._lock:
            series = self._counts.setdefault(name, {})
            key = _key(labels, series)
            series[key] = series.get(key, 0) + 1

    def observe(self, name: str, seconds: float, **labels: str) -> None:
        """Take a duration into a histogram: a count for each bucket, then the sum."""
        with self._lock:
            series = self._durations.setdefault(name, {})
            row = series.setdefault(_key(labels, series), [0.0] * (len(BOUNDS_S) + 2))
            row[bisect.bisect_left(BOUNDS_S, seconds)] += 1
            row[-1] += seconds

    def text(self, gauges: Mapping[str, float]) -> str:
        """Return all of it, and what is so just now."""
        with self._lock:
            return "\n".join(self._lines(gauges)) + "\n"

    def _lines(self, gauges: Mapping[str, float]) -> Iterator[str]:
        for name, value in gauges.items():
            yield from (f"# TYPE {name} gauge", f"{name} {value:g}")
        for name, series in self._counts.items():
            yield f"# TYPE {name} counter"
            yield from (f"{name}{_shown(labels)} {value:g}" for labels, value in series.items())
        for name, rows in self._durations.items():
            yield f"# TYPE {name} histogram"
            for labels, row in rows.items():
                total = 0.0
                for bound, value in zip([*map(str, BOUNDS_S), "+Inf"], row[:-1], strict=True):
                    total += value
                    yield f"{name}_bucket{_shown((*labels, ('le', bound)))} {total:g}"
                yield f"{name}_sum{_shown(labels)} {row[-1]:.9g}"
                yield f"{name}_count{_shown(labels)} {total:g}"


def _key(labels: Mapping[str, str], series: Mapping[Labels, object]) -> Labels:
    key = tuple(sorted(labels.items()))
    return key if key in series or len(series) < _MOST_SERIES else tuple((name, "other") for name, _ in key)


def _shown(labels: Labels) -> str:
    texts = (f'{name}="{_escaped(value)}"' for name, value in labels)
    return f"{{{','.join(texts)}}}" if labels else ""


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
