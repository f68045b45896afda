"""THE interface, as the file of a backend imports it; ``interface.py`` says what is needed and what may be added."""

from typing import TYPE_CHECKING, Any

from cross_backend.backend.formats import BundledPrograms, ForeignFiles
from cross_backend.backend.interface import Backend, Calibration, Feature, Lowered, Missing, Unavailable
from cross_backend.backend.keeping import Keeper, SessionState
from cross_backend.backend.lifecycle import Lifecycle
from cross_backend.backend.options import THREADS, Option, Options
from cross_backend.backend.profiles import Recorded
from cross_backend.backend.session import CallElsewhere, Rejected, Session

__all__ = [
    "THREADS",
    "Backend",
    "BundledPrograms",
    "Calibration",
    "CallElsewhere",
    "Feature",
    "ForeignFiles",
    "Keeper",
    "Lifecycle",
    "Lowered",
    "Missing",
    "Option",
    "Options",
    "Recorded",
    "Rejected",
    "Session",
    "SessionState",
    "Unavailable",
]


if not TYPE_CHECKING:  # for which any name would be one of this module

    def __getattr__(name: str) -> Any:
        if name == "Gap":
            import warnings

            warnings.warn("cross_backend.backend.Gap is called Unavailable; Gap goes in 1.3.", DeprecationWarning, 2)
            return Unavailable
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
