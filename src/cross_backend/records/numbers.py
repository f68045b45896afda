"""Numbers as JSON can hold them."""

from __future__ import annotations

import math


def finite(value: float) -> float | None:
    """Return a number that JSON can hold, or None."""
    return value if math.isfinite(value) else None
