"""Store: every sample of every study, in SQLite or PostgreSQL (format and guarantees: docs/store.md).

SQLAlchemy is imported when ``Store`` is named.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cross_backend.store.rows import PanelRow, StoredStudy, StudyRow

if TYPE_CHECKING:
    from cross_backend.store.store import Store

__all__ = ["PanelRow", "Store", "StoredStudy", "StudyRow"]


def __getattr__(name: str) -> Any:
    if name != "Store":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from cross_backend.store.store import Store

    return Store
