"""Kept probes: inputs on which some target was wrong, by the digest of the program; later comparisons judge on them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from cross_backend.cache import Cache
from cross_backend.tensors import load_tensors, save_tensors
from cross_backend.verify.further import PROBE, KnownInput, further_groups, further_of

KIND = "probes"
FILE = "probes.npz"
MOST = 8
"""Of a program; the oldest go."""


def kept_probes(cache: Cache, digest: str) -> Path | None:
    """Return the file of a captured program's kept probes; None where there are none."""
    folder = cache.find(KIND, digest[:32])
    path = folder / FILE if folder is not None else None
    return path if path is not None and path.is_file() else None


def keep_probes(cache: Cache, digest: str, found: Iterable[KnownInput]) -> Path:
    """Add probes to those of a captured program, and return their file."""
    path = kept_probes(cache, digest)
    rows = list(further_of(PROBE, load_tensors(path))) if path is not None else []
    names = {one.name for one in rows}
    rows += [one for one in found if one.name not in names]
    with cache.scratch() as folder:
        save_tensors(folder / FILE, further_groups(PROBE, rows[-MOST:]))
        cache.drop(KIND, digest[:32])
        return cache.publish(folder, KIND, digest[:32]) / FILE


def with_kept_probes(sample: Mapping[str, Any], cache: Cache, digest: str) -> Mapping[str, Any]:
    """Return a sample's groups with the kept probes among its own."""
    path = kept_probes(cache, digest)
    if path is None:
        return sample
    rows = [*further_of(PROBE, sample), *further_of(PROBE, load_tensors(path))]
    return {**sample, **further_groups(PROBE, rows)}
