"""Visitor: the model in the visitor's own browser: what it is handed, and what is made of the outputs that come back.

The page's browser runs the exported ONNX itself (``browser/ort_page.js``). The server prepares the input, keeps it for
a while under a ticket, and presents the outputs as those of any backend.
"""

from __future__ import annotations

import base64
import json
import math
import secrets
import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cross_backend.browser.assets import model_files, model_of
from cross_backend.errors import UsageError
from cross_backend.tensors import TensorSpec, to_numpy
from cross_backend.web.catalogue import Choice, Playable

if TYPE_CHECKING:
    import numpy as np

    from cross_backend.workloads.media import Prepared

    Arrays = tuple[np.ndarray[Any, Any], ...]

MOST_TICKETS = 32
"""Inputs that are kept for outputs that may come."""
TYPES = ("bool", "float16", "float32", "float64", "int8", "int16", "int32", "int64", "uint8")
"""Element types that the runtime in the browser returns and NumPy has under the same name."""
RUNTIME_SUFFIX = ".wasm"


@dataclass(frozen=True)
class Ticket:
    """An input that was handed out."""

    model: str
    prepared: Prepared | None
    """None where it is the model's own sample."""
    first: Arrays | None
    """Outputs of the first backend on the same input, to compare with."""


class Tickets:
    """The last inputs that were handed out; threads may ask at once."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: OrderedDict[str, Ticket] = OrderedDict()

    def issue(self, ticket: Ticket) -> str:
        """Keep an input, and return the name under which it is found."""
        name = secrets.token_urlsafe(12)
        with self._lock:
            self._kept[name] = ticket
            while len(self._kept) > MOST_TICKETS:
                self._kept.popitem(last=False)
        return name

    def find(self, name: str) -> Ticket:
        """Return what is kept under a name.

        Raises:
            UsageError: nothing, or no longer.
        """
        with self._lock:
            if name not in self._kept:
                raise UsageError("this input is no longer kept; run it again.")
            return self._kept[name]


def can_run(model: Playable) -> Choice | None:
    """Return a choice whose file a browser can open; None where the model has none."""
    for choice in model.choices:
        if choice.artifact is not None and not choice.artifact.state and choice.artifact.payload_path.suffix == ".onnx":
            return choice
    return None


def unavailable() -> str:
    """Return why no browser can run anything here; empty where it can."""
    if any(name.endswith(RUNTIME_SUFFIX) for name in model_files()):
        return ""
    return "its runtime is not here; cross-backend toolchain add browser"


def file_of(choice: Choice) -> Path:
    """Return the path of the model that a browser opens.

    Raises:
        UsageError: it is another runtime's.
        ArtifactError: it is damaged.
    """
    path = None if choice.artifact is None else model_of(choice.artifact)
    if path is None:
        raise UsageError("no browser can open this artifact.")
    return path


def handed_out(tensors: Sequence[Any]) -> list[dict[str, Any]]:
    """Return tensors as JSON: type, extents, bytes in base64."""
    rows = []
    for tensor in map(to_numpy, tensors):
        data = base64.b64encode(tensor.tobytes()).decode()
        rows.append({"type": str(tensor.dtype), "dims": list(tensor.shape), "data": data})
    return rows


def taken_back(layout: str, data: bytes, specs: Sequence[TensorSpec]) -> Arrays:
    """Return the outputs that a browser sends: a list of type and extents, and all bytes after each other.

    Raises:
        UsageError: they are not what the artifact returns.
    """
    import numpy as np

    try:
        rows = json.loads(layout)
        found, at = [], 0
        for row in rows:
            kind, dims = str(row["type"]), [int(n) for n in row["dims"]]
            if kind not in TYPES or min(dims, default=0) < 0:
                raise ValueError(kind)
            dtype = np.dtype(kind)
            size = math.prod(dims) * dtype.itemsize
            if size > len(data) - at:
                raise ValueError(dims)
            found.append(np.frombuffer(data, dtype, math.prod(dims), at).reshape(dims))
            at += size
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError) as error:
        raise UsageError("these are no outputs of a model.") from error
    fits = len(found) == len(specs) and all(spec.accepts(one) for spec, one in zip(specs, found, strict=False))
    if not fits or at != len(data):
        raise UsageError(f"these are not the outputs of this model: {', '.join(map(str, specs))}.")
    return tuple(found)
