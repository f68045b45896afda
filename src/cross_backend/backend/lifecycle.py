"""Lifecycle: what a vendor says of a backend's future."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Lifecycle:
    """When a vendor began a backend's end, to be read against the version that is installed."""

    distribution: str = ""
    """Whose versions these are."""
    deprecated: str | None = None
    """First version that warns."""
    removed: str | None = None
    """First version without it."""
    instead: str = ""
    """The ways out."""

    def read(self, installed: str | None) -> str:
        """Return ``supported``, ``deprecated …`` or ``removed …`` for an installed version; the newest where None."""
        if not self.removed and not self.deprecated:
            return "supported"
        from packaging.version import Version

        here = Version(installed) if installed else None
        seen = f" ({installed} is installed here)" if installed else ""
        ways = f"; ways out: {self.instead}" if self.instead else ""
        if self.removed and (here is None or here >= Version(self.removed)):
            return f"removed in {self.distribution} {self.removed}{seen}{ways}"
        if self.deprecated and (here is None or here >= Version(self.deprecated)):
            end = f", removed in {self.removed}" if self.removed else ""
            return f"deprecated since {self.distribution} {self.deprecated}{end}{seen}{ways}"
        return "supported"
