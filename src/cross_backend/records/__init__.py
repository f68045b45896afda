"""Records: the immutable rows that join running to reporting; no torch, no NumPy at import."""

from cross_backend.records.numbers import finite
from cross_backend.records.panel import SCHEMA, Launch, Panel, PanelKey, document
from cross_backend.records.profiles import Execution, Part, SideBySide, Simulated, Spent, Timing
from cross_backend.records.result import INTERRUPTED, LOCALIZED, PEAK, TOO_FEW, Further, Result, peak_of
from cross_backend.records.study import StudyPart, StudyResults
from cross_backend.records.verdict import Agreement, Comparison, Outcome

__all__ = [
    "INTERRUPTED",
    "LOCALIZED",
    "PEAK",
    "SCHEMA",
    "TOO_FEW",
    "Agreement",
    "Comparison",
    "Execution",
    "Further",
    "Launch",
    "Outcome",
    "Panel",
    "PanelKey",
    "Part",
    "Result",
    "SideBySide",
    "Simulated",
    "Spent",
    "StudyPart",
    "StudyResults",
    "Timing",
    "document",
    "finite",
    "peak_of",
]
