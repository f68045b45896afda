"""Store: every sample of every study, in SQLite or PostgreSQL (format and guarantees: docs/store.md)."""

from __future__ import annotations

from cross_backend.store.rows import PanelRow, Study, StudyRow
from cross_backend.store.store import Store

__all__ = ["PanelRow", "Store", "Study", "StudyRow"]
