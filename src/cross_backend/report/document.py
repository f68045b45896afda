"""Document: a study as one JSON value, the same rows as a comparison's and more about each."""

from __future__ import annotations

from typing import Any

from cross_backend import records
from cross_backend._version import __version__
from cross_backend.measure.percentiles import percentiles
from cross_backend.records import Result, StudyResults, finite
from cross_backend.report.views import timed


def document(results: StudyResults) -> dict[str, Any]:
    """Return the JSON document of a study: ``records.document`` of its panels, extended.

    Every result has its percentiles beside its latency; ``study``, ``versions``, ``started`` and ``finished`` say of
    what study, and ``machines`` what each machine has of it. Values that are not known are null.
    """
    plain = records.document(results.panels, results.machine)
    rows = iter(plain["results"])
    return {
        "made_by": {"cross-backend": __version__},  # first, where a report is told from other files
        **plain,
        "study": results.name,
        "started": results.started,
        "finished": results.finished,
        "settings": dict(results.settings),
        "versions": dict(results.versions),
        "machines": [part.to_json() for part in results.parts],
        "results": [
            {**next(rows), "title": result.title, "percentiles_ms": _percentiles(result)}
            for panel in results.panels
            for result in panel.results
        ],
    }


def _percentiles(result: Result) -> list[dict[str, Any]] | None:
    """Return each percentile with its interval, or null and how many samples it would need."""
    if not timed(result) or result.latency is None:
        return None
    return [
        {
            "percent": row.percent,
            "value": None if row.value is None else finite(row.value / 1e6),
            "low": None if row.low is None else finite(row.low / 1e6),
            "high": None if row.high is None else finite(row.high / 1e6),
            "needs": row.needs,
        }
        for row in percentiles(result.latency)
    ]
