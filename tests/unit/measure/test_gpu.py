"""GPUs: NVIDIA's own Python package over a library with NVML's C interface, built here; and what is said without."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from cross_backend.errors import UnavailableError
from cross_backend.measure.gpu import drivers, memory_of
from tests import needs

LIBRARY = """
#include <stdio.h>
typedef struct { unsigned pid; unsigned long long used; unsigned gpu_instance, compute_instance; } process_t;
static int devices[2] = {0, 1};
int nvmlInitWithFlags(unsigned flags) { return 0; }
int nvmlDeviceGetCount_v2(unsigned *count) { *count = 2; return 0; }
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **device) { *device = &devices[index]; return 0; }
int nvmlDeviceGetComputeRunningProcesses_v3(int *device, unsigned *count, process_t *rows) {
    if (*device == 0) { *count = 0; return 0; }                       /* nobody works on the first */
    if (*count < 3) { *count = 3; return 7; }                         /* NVML_ERROR_INSUFFICIENT_SIZE */
    *count = 3;
    rows[0] = (process_t){41, 1000, 0, 0};
    rows[1] = (process_t){42, 3000000000ULL, 0, 0};
    rows[2] = (process_t){43, ~0ULL, 0, 0};                           /* NVML_VALUE_NOT_AVAILABLE */
    return 0;
}
int nvmlDeviceGetTotalEnergyConsumption(int *device, unsigned long long *mj) {
    *mj = 12345678;
    return *device == 1 ? 0 : 3;                                      /* NVML_ERROR_NOT_SUPPORTED */
}
int nvmlDeviceGetPowerUsage(int *device, unsigned *mw) { *mw = 71500; return 0; }
const char *nvmlErrorString(int code) { return "an error"; }
"""
ASK = """
import json
from cross_backend.errors import UnavailableError
from cross_backend.measure import gpu
from cross_backend.measure.power import find_probe
from cross_backend.measure.sensors import GpuProbe
def said(do):
    try:
        return do()
    except UnavailableError as error:
        return str(error)
driver = gpu.Nvml()
probe = find_probe(42)
watts = GpuProbe(driver, [0])
print(json.dumps({
    "memory": [said(lambda: gpu.memory_of(pid)) for pid in (42, 43, 44)],
    "energy": [driver.energy_j(device) for device in (0, 1)],
    "probe": [probe.covers, probe.counts_energy, probe.read()],
    "meter": [watts.counts_energy, watts.read()],
}))
"""


def test_nvml_is_read_in_its_units(
    tmp_path: Path, run_python: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert sys.platform == "linux", "this test builds a shared library for Linux"
    compiler = needs.program("cc")
    (tmp_path / "nvml.c").write_text(LIBRARY)
    library = tmp_path / "libnvidia-ml.so.1"
    subprocess.run([compiler, "-shared", "-fPIC", "-o", str(library), str(tmp_path / "nvml.c")], check=True)
    monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path))
    found = json.loads(run_python(ASK))
    held, hidden, unknown = found["memory"]
    assert held == 3_000_000_000
    assert "NVML hides how much" in hidden
    assert "NVML knows of no work of this process" in unknown
    assert found["energy"] == [None, 12345.678], "joules; None where the GPU does not count"
    assert found["probe"] == ["GPU 1 (NVML)", True, 12345.678]
    assert found["meter"] == [False, 71.5], "watts"


def test_a_driver_that_does_not_load_is_told(
    tmp_path: Path, run_python: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "libnvidia-ml.so.1").write_text("no library")
    monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path))
    script = "import json; from cross_backend.measure.gpu import drivers; print(json.dumps(drivers()[1]))"
    reasons = json.loads(run_python(script))
    assert reasons[0] == "no NVIDIA driver (NVML Shared Library Not Found)"


def test_a_process_that_no_gpu_works_for_has_no_figure() -> None:
    with pytest.raises(UnavailableError, match=r"^not measurable here: ") as caught:
        memory_of(1)
    assert "\n" not in str(caught.value)
    assert all(reason in str(caught.value) for reason in drivers()[1])
