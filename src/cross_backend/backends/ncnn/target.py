"""ncnn: Tencent's engine, on the processor or through Vulkan."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, final

from cross_backend.artifact import Artifact
from cross_backend.backend import THREADS, Backend, Calibration, Lowered, Missing, Option, Options, Session
from cross_backend.backends._packages import missing_packages
from cross_backend.backends._scripts import check_float32, check_processor
from cross_backend.backends._vulkan import shows_no_speed
from cross_backend.backends.ncnn._convert import convert
from cross_backend.backends.ncnn._files import PARAM, WEIGHTS, layers_of
from cross_backend.backends.ncnn._session import NcnnSession, is_software
from cross_backend.errors import UnsupportedError, failing_as
from cross_backend.placement import Placement, count_operators
from cross_backend.program.captured import Program
from cross_backend.records import Execution
from cross_backend.tensors import Tensors

if TYPE_CHECKING:
    from cross_backend.machine import Machine


@final
class Ncnn(Backend):
    """ncnn's own defaults store tensors in 16 bits, with errors of 1e-3; a target says ``precision=fp16`` for that.

    pnnx stores the weights in 16 bits as well then. What computes in 16 bits depends on the processor: of x86 only the
    weights of matrix products are kept so, and multiplied in float32; 64-bit Arm and Vulkan compute in float16.
    """

    name = "ncnn"
    title = "Tencent ncnn"
    suffix = ""
    distributions = ("ncnn", "pnnx", "torch")
    preload = ("ncnn",)
    runtime_modules = ("ncnn",)
    limits = {"dynamic_shapes": "its converter reads a trace, which holds one size of every tensor"}
    takes_state = "tensors"
    options = {
        "device": Option("which processor runs it", "cpu", ("cpu", "vulkan"), at="load"),
        "precision": Option("storage of weights and tensors, and arithmetic where it exists", "fp32", ("fp32", "fp16")),
        "threads": THREADS,
    }

    def missing(self, machine: Machine) -> Missing | None:
        return missing_packages(self.distributions, ("ncnn",), "ncnn")

    def lower(self, program: Program, options: Options, stem: Path, calibration: Calibration) -> Lowered:
        stem.mkdir()
        convert(program, stem, half=options["precision"] == "fp16")
        with failing_as(UnsupportedError, "ncnn's graph cannot be read back"):
            inside = layers_of(stem / PARAM)
        return Lowered(stem, Placement(inside=count_operators(inside), constant_bytes=(stem / WEIGHTS).stat().st_size))

    def reproduction(self, options: Options) -> Sequence[str]:
        check_float32(self.title, options)
        check_processor(self.title, options)
        return [
            "import ncnn, pathlib, pnnx, re, subprocess, tempfile",
            "made = tempfile.TemporaryDirectory()",
            "folder = pathlib.Path(made.name)",
            'torch.jit.trace(program.module(check_guards=False), inputs).save(folder / "m.pt")',
            'subprocess.run([pnnx.EXEC_PATH, "m.pt", "fp16=0"], cwd=folder, capture_output=True)',
            "net = ncnn.Net()",
            "net.opt.use_fp16_packed = net.opt.use_fp16_storage = net.opt.use_fp16_arithmetic = False",
            'net.load_param(str(folder / "m.ncnn.param")), net.load_model(str(folder / "m.ncnn.bin"))',
            r'batches = [int(n) for n in re.findall(r"batch_index=(\d+)", (folder / "m_ncnn.py").read_text())]',
            "arrays = [(x if x.is_floating_point() else x.int()).numpy() for x in inputs]",
            "call = net.create_extractor()",
            "for at, x in enumerate(arrays):",
            '    call.input(f"in{at}", ncnn.Mat(x, batch_index=batches[at]).clone())',
            'got = [call.extract(f"out{at}")[1] for at in range(len(expected))]',
            "got = [x.numpy(batch_index=n) for x, n in zip(got, batches[len(inputs):])]",
            "got = [torch.as_tensor(x).reshape(want.shape) for x, want in zip(got, expected)]",
        ]

    def load(self, artifact: Artifact, options: Options) -> Session:
        return NcnnSession(artifact, options)

    def execution(self, artifact: Artifact, options: Options, inputs: Tensors) -> Execution | None:
        """Count the layers that have a Vulkan form; the others run on the processor."""
        with NcnnSession(artifact, options) as session:
            if options["device"] == "cpu":
                return Execution("CPU", nodes=1.0, precision=_arithmetic_of_cpu(options))
            elsewhere, total = session.on_processor(), session.layer_count
            gpu = session.gpu
            return Execution(
                f"Vulkan ({gpu.device_name()})",
                nodes=1 - elsewhere.total() / total if total else None,
                elsewhere=tuple((f"{kind} @ CPU", count) for kind, count in elsewhere.most_common()),
                precision=options["precision"],
                functional_only=shows_no_speed(gpu.device_name()) if is_software(gpu) else None,
            )


def _arithmetic_of_cpu(options: Options) -> str:
    """Return what the processor computes in; only some 64-bit Arm processors have units for float16."""
    import ncnn

    if options["precision"] == "fp32":
        return "fp32"
    return "fp16" if ncnn.cpu_support_arm_asimdhp() else "fp32 with fp16 weights"
