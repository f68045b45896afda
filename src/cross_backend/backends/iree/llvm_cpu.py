"""iree.llvm_cpu: IREE's compiler for this very processor."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, final

from cross_backend.artifact import Artifact
from cross_backend.backend import THREADS, Options, Recorded, Session
from cross_backend.backends._scripts import ARRAYS
from cross_backend.backends.iree._iree import IreeBackend
from cross_backend.backends.iree._profile import record
from cross_backend.backends.iree._session import IreeSession, create_driver
from cross_backend.backends.iree._types import Types
from cross_backend.tensors import Tensors

_FLAGS = (
    "--iree-hal-target-device=local",
    "--iree-hal-local-target-device-backends=llvm-cpu",
    "--iree-llvmcpu-target-cpu=host",
    "--iree-opt-data-tiling",
)


@final
class IreeLlvmCpu(IreeBackend):
    """Code for the processor that lowers; optimisation levels above the default fail on transformers."""

    name = "iree.llvm_cpu"
    title = "IREE (CPU)"
    options = {"threads": THREADS}
    payload_depends_on_cpu = True

    def _target(self, options: Options, types: Types) -> tuple[Sequence[str], dict[str, str]]:
        flags = list(_FLAGS)
        if "float64" in types.all:
            flags.append("--iree-input-demote-f64-to-f32=false")  # its default reads float64 inputs as float32
        return flags, {}

    def load(self, artifact: Artifact, options: Options) -> Session:
        return _CpuSession(artifact, options)

    def reproduction(self, options: Options) -> Sequence[str]:
        flags = ", ".join(f'"{flag}"' for flag in _FLAGS)
        return [
            "import iree.compiler, iree.runtime",
            "from iree.turbine import aot",
            "lowered = program.run_decompositions(aot.decompositions.current_aot_decompositions())",
            f"flags = [{flags}]",
            "source = str(aot.export(lowered).mlir_module)",
            'binary = iree.compiler.compile_str(source, input_type="torch", extra_args=flags)',
            'module = iree.runtime.load_vm_flatbuffer(binary, driver="local-task")',
            f"results = module.main(*{ARRAYS})",
            "got = [x.to_host() for x in (results if isinstance(results, tuple) else (results,))]",
        ]

    def record(self, artifact: Artifact, options: Options, inputs: Tensors, runs: int) -> Recorded:
        driver, flags = _driver(options["threads"])
        recorded = record(artifact, inputs, runs + 1, [f"--device={driver}", *flags], "host-execution")
        return [run.rows for run in recorded[1:]]


def _driver(threads: int | None) -> tuple[str, list[str]]:
    """Return the driver and its flags: one thread is the caller's own; IREE chooses their number where it is 0."""
    if threads == 1:
        return "local-sync", []
    return "local-task", [f"--task_topology_group_count={threads or 0}"]


class _CpuSession(IreeSession):
    def _create_device(self) -> Any:
        driver, flags = _driver(self.options["threads"])
        return create_driver(driver, *flags).create_default_device()
