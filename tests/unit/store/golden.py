"""Golden: what ``tests/data/studies_v1.sqlite`` holds; run as a module, it writes such a file."""

from __future__ import annotations

import sys
from pathlib import Path

from cross_backend.machine import Machine
from cross_backend.measurement import Interval, Measurement
from cross_backend.placement import Operators, Placement
from cross_backend.records import Comparison, Execution, Further, Launch, Outcome, PanelKey, Result
from cross_backend.store import Store

PANEL = PanelKey("net", 8, 2)
MACHINE = Machine("Some CPU @ 3 GHz", ("avx2", "fma"), 2, 4, 8 << 30, "linux", "x86_64", "6.1.0", "3.11.7")
RESULT = Result(
    "net",
    "onnxruntime.cpu?threads=2",
    "ONNX Runtime (CPU)",
    Outcome.OK,
    latency=Measurement("latency", "ns", ((1_500_000, 1_512_345), (), (1_498_001, 5_000_000_000)), (2, 1)),
    latency_ms=Interval(1.5, 1.4, 1.6),
    mean_ms=1.52,
    comparison=Comparison(1e-6, 1e-6, float("inf"), 1.0, 1e-4, verdict=True),
    placement=Placement(
        {"X": 1}, (Operators("conv", 52),), (Operators("sort", 1, "no kernel", 17, ("m.py:3",)),), 0.99
    ),
    size_bytes=10_200_000,
    export_s=2.5,
    load_s=0.1,
    sample_output=(0.5, -1.0),
    task={"top-1 accuracy": 0.7},
    warnings=("load «3.5»",),
    execution=Execution("CPU", 1.0, None, (("sort on CPU", 1),), "fp32"),
    measurements=(Measurement("cold_start.load", "ns", ((123_456_789,),)),),
    absent={"power": "no counter here"},
)
WRONG = Result("net", "iree.vulkan", "IREE", Outcome.MISMATCH, "wrong outputs: relative 1.7")
LAUNCH = Launch((RESULT, WRONG), RESULT, 0, ("steal time 3 %",), 12.5)
FURTHER = Further(
    measurements=(Measurement("energy.per_inference", "J", ((0.25, 1e-300),)),), absent={"power": "no counter here"}
)
NOTE = {"noise_floor": 0.02}
SPEC = {"workloads": ["net"], "targets": ["cpu", "iree.vulkan"]}
VERSIONS = {"onnxruntime": "1.31.1"}


def write(path: Path) -> None:
    """Write one finished study, by what the package does now."""
    with Store.open(str(path)) as store:
        study = store.begin("golden", SPEC, "d" * 64, MACHINE, VERSIONS)
        store.keep_launch(study.id, PANEL, 0, LAUNCH)
        store.keep_instruments(study.id, PANEL, 0, FURTHER)
        store.finish_panel(study.id, PANEL, NOTE)
        store.finish(study.id)


if __name__ == "__main__":
    write(Path(sys.argv[1]))
