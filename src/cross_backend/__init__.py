"""cross-backend: which backend to ship on each device, whether it is right, how fast it is, and how to load it.

    import cross_backend as xb

    program = xb.capture(model, inputs)
    artifact = xb.lower(program, "xnnpack")
    with xb.load(artifact) as session:
        output = session(*inputs)

Nothing heavy is imported until a name is used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from cross_backend._version import __version__

if TYPE_CHECKING:
    from cross_backend.api.bundle import bundle
    from cross_backend.api.compare import compare
    from cross_backend.api.export import explain, export
    from cross_backend.api.localize import keep_out, localize
    from cross_backend.api.lower import lower
    from cross_backend.api.tune import tune
    from cross_backend.artifact import Artifact
    from cross_backend.backend import Backend, Session
    from cross_backend.errors import CrossBackendError
    from cross_backend.loading.fallback import load_best
    from cross_backend.loading.load import load
    from cross_backend.names.target import Target
    from cross_backend.placement import Placement
    from cross_backend.program.capture import capture
    from cross_backend.program.captured import OnnxProgram
    from cross_backend.records import Outcome, Panel, Result
    from cross_backend.study.runner import ComparisonRunner, Study
    from cross_backend.workloads import Task, Workload

_NAMES = {
    "Artifact": "artifact",
    "Backend": "backend",
    "ComparisonRunner": "study.runner",
    "CrossBackendError": "errors",
    "OnnxProgram": "program.captured",
    "Outcome": "records",
    "Panel": "records",
    "Placement": "artifact",
    "Result": "records",
    "Session": "backend",
    "Study": "study.runner",
    "Target": "names.target",
    "Task": "workloads",
    "Workload": "workloads",
    "bundle": "api.bundle",
    "capture": "program.capture",
    "compare": "api.compare",
    "explain": "api.export",
    "export": "api.export",
    "keep_out": "api.localize",
    "load": "loading.load",
    "load_best": "loading.fallback",
    "localize": "api.localize",
    "lower": "api.lower",
    "tune": "api.tune",
}
__all__ = [
    "Artifact",
    "Backend",
    "ComparisonRunner",
    "CrossBackendError",
    "OnnxProgram",
    "Outcome",
    "Panel",
    "Placement",
    "Result",
    "Session",
    "Study",
    "Target",
    "Task",
    "Workload",
    "__version__",
    "bundle",
    "capture",
    "compare",
    "explain",
    "export",
    "keep_out",
    "load",
    "load_best",
    "localize",
    "lower",
    "tune",
]


def __getattr__(name: str) -> Any:
    if name not in _NAMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_NAMES[name]}"), name)


def __dir__() -> list[str]:
    return __all__
