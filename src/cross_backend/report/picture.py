"""Picture: one chart of a report as a drawing that stands alone, for notebooks and files."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from os import PathLike
from pathlib import Path

from cross_backend.errors import UsageError, unknown_name
from cross_backend.records import Panel, StudyResults
from cross_backend.report.charts import latency
from cross_backend.report.charts.plots import Chart
from cross_backend.report.files import replace_file
from cross_backend.report.html import template_text
from cross_backend.report.looks import Look
from cross_backend.report.views import View, looks_of, views

KINDS: Mapping[str, Callable[[View, Mapping[str, Look]], Chart | None]] = {
    "latency": latency.boxes,
    "ratio": latency.ratios,
}
"""Name of a chart → what draws it."""
_COLOURS = re.compile(
    r"^(?::root \{.*?\n\}|@media \(prefers-color-scheme: dark\) \{.*?\n\})$", re.MULTILINE | re.DOTALL
)
_MARKS = re.compile(r"^(?:\.chart[^\n]*|(?:\.[sd]\d \{[^}\n]*\} ?)+)$", re.MULTILINE)


@dataclass(frozen=True)
class Picture:
    """A drawing in SVG that needs nothing beside it; a notebook shows it."""

    title: str
    svg: str
    """The whole file."""

    def _repr_html_(self) -> str:
        """Return it as an image, so that its style stays its own."""
        data = base64.b64encode(self.svg.encode()).decode()
        return f'<img alt="" src="data:image/svg+xml;base64,{data}">'

    def save(self, path: str | PathLike[str]) -> Path:
        """Write the file.

        Raises:
            UsageError: its name does not end in ``.svg``.
            ReportError: it cannot be written.
        """
        place = Path(path)
        if place.suffix.lower() != ".svg":
            raise UsageError(f"path: a file that ends in .svg is expected, not {str(path)!r}.")
        replace_file(place, [self.svg])
        return place


def picture(panel: Panel, kind: str) -> Picture:
    """Draw a chart of a panel.

    Raises:
        UsageError: an unknown kind, or there is nothing to draw.
    """
    if kind not in KINDS:
        raise unknown_name("kind of plot", str(kind), KINDS)
    shown = views(StudyResults(panel.workload, (panel,), panel.machine, {}, panel.settings, ""))
    chart = KINDS[kind](shown[0], looks_of(shown))
    if chart is None:
        raise UsageError(f"nothing to draw: the panel has too few verified and timed targets for {kind!r}.")
    return Picture(chart.title, _alone(str(chart.svg)))


def _alone(svg: str) -> str:
    """Return a chart with the style that a report's page has for it."""
    css = template_text("report.css")
    style = "\n".join([*_COLOURS.findall(css)[:2], *_MARKS.findall(css), "svg { background: var(--paper); }"])
    head, body = svg.split(">", 1)
    return f'{head} xmlns="http://www.w3.org/2000/svg"><style>{style}</style>{body}\n'
