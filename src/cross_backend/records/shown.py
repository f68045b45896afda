"""How records show themselves."""

from __future__ import annotations

import importlib
from typing import Any


def report_of(medium: str) -> Any:
    """Return a file of the report. It stands above this one, so it is named only when something is to be shown."""
    return importlib.import_module(f"cross_backend.report.{medium}")
