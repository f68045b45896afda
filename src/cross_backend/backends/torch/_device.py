"""The processors that torch runs on: which one is there, how its call is ended, and what a reader should know of it."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cross_backend.backend import Option
from cross_backend.errors import RunError, UnavailableError, failing_as, one_line
from cross_backend.program.pt2 import load_pt2

if TYPE_CHECKING:
    from torch.export import ExportedProgram

FALLBACK = "PYTORCH_ENABLE_MPS_FALLBACK"
"""Environment variable that lets torch run on the CPU what MPS lacks."""


def device_option(*devices: str, at_lowering: bool = False) -> Option:
    """Return the option that chooses among these."""
    return Option("which processor runs it", "cpu", devices, at="lower" if at_lowering else "load")


def require(device: str) -> None:
    """Refuse a device that does not compute here, and switch its shortcuts off.

    Raises:
        UnavailableError: with what stops it.
    """
    import torch

    if device == "cpu":
        return
    unavailable = _no_cuda() if device == "cuda" else _no_mps()
    if unavailable is not None:
        raise UnavailableError(*unavailable)
    if device == "cuda":  # TF32 keeps 10 bits of float32's 23; torch's newer switches break whoever reads these two
        torch.backends.cuda.matmul.allow_tf32 = False
        torch.backends.cudnn.allow_tf32 = False
    try:
        two = float((torch.ones(1, device=device) + 1).cpu())
    except Exception as error:
        raise UnavailableError(
            f"torch lists {device} and cannot compute on it ({one_line(error)})", "repair its driver"
        ) from error
    if two != 2:
        raise UnavailableError(f"torch computes 1 + 1 = {two:g} on {device}", "repair its driver")


def _no_cuda() -> tuple[str, str] | None:
    import torch

    if torch.version.cuda is None and torch.version.hip is None:
        remedy = "install a build of torch for CUDA or ROCm (https://pytorch.org/get-started/locally)"
        return f"torch {torch.__version__} is built without CUDA and ROCm", remedy
    if not torch.cuda.is_available():
        vendor = "NVIDIA's driver (nvidia-smi must list a GPU)" if torch.version.cuda else "AMD's driver and ROCm"
        return f"torch {torch.__version__} finds no GPU", f"install {vendor}"
    return None


def _no_mps() -> tuple[str, str] | None:
    import torch

    if not torch.backends.mps.is_built():
        return f"torch {torch.__version__} is built without MPS", "use a Mac with Apple silicon"
    if not torch.backends.mps.is_available():
        return "torch finds no Metal device", "use a Mac with Apple silicon and macOS 14 or newer"
    if os.environ.get(FALLBACK, "0") != "0":
        return f"{FALLBACK} lets torch run on the CPU what MPS lacks", f"unset {FALLBACK}"
    return None


def read_program(path: Path, device: str) -> ExportedProgram:
    """Read a program; its weights, its constants and the tensors that it makes lie on a device."""
    program = load_pt2(path)
    if device == "cpu":
        return program
    from torch.export.passes import move_to_device_pass

    return move_to_device_pass(program, device)


def moved_with_inputs(path: Path, program: ExportedProgram, device: str) -> ExportedProgram:
    """Read a program to a device, with the example inputs of the one that was stored: files hold none."""
    import torch
    from torch.utils import _pytree

    moved = read_program(path, device)
    moved.example_inputs = _pytree.tree_map_only(torch.Tensor, lambda leaf: leaf.to(device), program.example_inputs)
    return moved


def synchronize(device: str) -> Callable[[], None] | None:
    """Return the call that waits for a device; None where calls return when they are done."""
    import torch

    waits: dict[str, Callable[[], None]] = {"cuda": torch.cuda.synchronize, "mps": torch.mps.synchronize}
    return waits.get(device)


CUDA_GRAPH = Option("replay all kernels of a call in one launch (device=cuda)", "off", ("off", "on"), at="load")


@contextlib.contextmanager
def buffers_kept(module: Any) -> Iterator[None]:
    """Give a module's buffers back what they held: calls before the first of the user's leave no trace."""
    import torch

    held = [(buffer, buffer.clone()) for buffer in module.buffers()]
    yield
    with torch.inference_mode():
        for buffer, before in held:
            buffer.copy_(before)


def as_cuda_graph(function: Callable[[], Any], module: Any) -> Callable[[], Any]:
    """Record one call's kernels as a CUDA graph; return the call that replays them, into the same outputs.

    The calls before the recording, in which libraries choose their kernels, leave the module's buffers as they were.

    Raises:
        RunError: the program waits for the GPU in mid-call, which no graph can.
    """
    import torch

    with failing_as(RunError, "CUDA cannot record it as a graph; leave cuda_graph=on away"):
        with buffers_kept(module):
            stream = torch.cuda.Stream()
            stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(stream):
                for _ in range(3):
                    function()
            torch.cuda.current_stream().wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            outputs = function()

    def replay() -> Any:
        graph.replay()
        return outputs

    return replay


def describe(device: str) -> str:
    """Name the device: the GPU, or the libraries that compute on the CPU; some are slow on other vendors' CPUs."""
    import torch

    if device == "cuda":
        return f"CUDA ({torch.cuda.get_device_name()})"
    if device == "mps":
        return "MPS"
    built = torch.__config__.show()
    blas = re.search(r"BLAS_INFO=(\w+)", built)
    onednn = re.search(r"MKL-DNN v([\d.]+)", built)
    parts = [f"BLAS {blas[1]}" if blas else "", f"oneDNN {onednn[1]}" if onednn else ""]
    return f"CPU ({', '.join(part for part in parts if part) or 'neither BLAS nor oneDNN'})"
