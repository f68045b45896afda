"""From a captured program to ncnn's files: pnnx, a program of its own, reads a TorchScript trace or an ONNX file."""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
import warnings
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from cross_backend.backends._onnx import tensors_of_file
from cross_backend.backends.ncnn._attention import with_added_masks
from cross_backend.backends.ncnn._casts import without_input_casts
from cross_backend.backends.ncnn._files import PARAM, WEIGHTS, Port, Ports, layers_of
from cross_backend.errors import LowerError, UnsupportedError, failing_as
from cross_backend.program.capture import example_inputs, ports_of
from cross_backend.program.captured import OnnxProgram, Program
from cross_backend.tensors import TensorSpec

TAKEN = ("float32", "int8", "int16", "int32", "int64", "uint8")
"""Types of inputs: ncnn computes in float32, and reads indices as int32."""
GIVEN = ("float32",)
"""Types of outputs: a tensor of ncnn's does not say whether its bits are a float or a whole number."""
_MOST_DIMENSIONS = 5
"""Four and a batch."""
_REFUSED = re.compile(r"not support|unsupport", re.IGNORECASE)
"""In a line in which pnnx says that it converts something wrongly; it goes on, and ends with status 0."""
_INPUT = re.compile(r'ex\.input\("([^"]+)",.*batch_index=(\d+)')
_EXTRACT = re.compile(r'ex\.extract\("([^"]+)"\)')
_OUTPUT = re.compile(r"out\.append\(.*batch_index=(\d+)")
_REASON = 300
"""Most characters of pnnx's text in an error."""


def convert(program: Program, folder: Path, *, half: bool) -> None:
    """Write a payload.

    Args:
        program: not modified.
        folder: receives the files; it exists and is empty.
        half: whether weights are stored in 16 bits.

    Raises:
        UnsupportedError: pnnx or ncnn has no such operator or tensor; names it.
        LowerError: pnnx failed.
    """
    with tempfile.TemporaryDirectory() as name:
        if isinstance(program, OnnxProgram):
            inputs, outputs = tensors_of_file(program.path)
            as_float = [False] * len(inputs)
        else:
            inputs, outputs = ([TensorSpec.of(*port) for port in ports] for ports in ports_of(program))
            module = program.module(check_guards=False)
            as_float = without_input_casts(module)
        taken = [replace(spec, dtype="float32") if one else spec for spec, one in zip(inputs, as_float, strict=True)]
        _check("input", taken, TAKEN)
        _check("output", outputs, GIVEN)
        if isinstance(program, OnnxProgram):
            source = Path(name) / "model.onnx"
            shutil.copyfile(program.path, source)
        else:
            source = Path(name) / "model.pt"
            examples = zip(example_inputs(program), as_float, strict=True)
            _trace(module, [x.float() if one else x for x, one in examples], source)
        said = _run_pnnx(source, half=half)
        graph = source.with_name("model.ncnn.param")
        _check_layers(graph, said)
        _ports(source.with_name("model_ncnn.py"), as_float, len(outputs)).write(folder)
        shutil.move(graph, folder / PARAM)
        shutil.move(source.with_name("model.ncnn.bin"), folder / WEIGHTS)


def _check(kind: str, specs: Sequence[TensorSpec], dtypes: Sequence[str]) -> None:
    """Refuse tensors that ncnn cannot hold."""
    for spec in specs:
        if spec.dtype not in dtypes:
            raise UnsupportedError(
                f"ncnn cannot take it: {kind} {spec.name!r} is {spec}; possible: {', '.join(dtypes)}."
            )
        if kind == "input" and not spec.shape:
            raise UnsupportedError(f"ncnn cannot take it: input {spec.name!r} has no dimensions; give it one of 1.")
        if 0 in spec.shape:
            raise UnsupportedError(f"ncnn cannot take it: {kind} {spec.name!r} is empty ({spec}).")
        if len(spec.shape) > _MOST_DIMENSIONS:
            raise UnsupportedError(f"ncnn cannot take it: {kind} {spec.name!r} has more than 4 dimensions and a batch.")


def _trace(module: Any, inputs: Sequence[Any], path: Path) -> None:
    """Write a program's module as TorchScript, which pnnx reads; tracing runs it once."""
    import torch

    with failing_as(LowerError, "torch.jit cannot trace it"), torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the guards on shapes, which are met
        torch.jit.trace(with_added_masks(module), tuple(inputs), check_trace=False).save(str(path))


def _run_pnnx(source: Path, *, half: bool) -> list[str]:
    """Run the converter beside its source; return the lines that it printed."""
    import pnnx

    command = [pnnx.EXEC_PATH, source.name, f"fp16={int(half)}"]
    done = subprocess.run(
        command,
        cwd=source.parent,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
    )
    lines = [line.strip() for line in done.stdout.decode(errors="replace").splitlines() if line.strip()]
    if done.returncode or not source.with_name("model.ncnn.bin").is_file():
        told = next((line for line in reversed(lines) if re.search(r"error|fail", line, re.IGNORECASE)), "")
        raise LowerError(
            f"pnnx ended with status {done.returncode}: {(told or (lines or ['no output'])[-1])[:_REASON]}"
        )
    return lines


def _check_layers(graph: Path, said: Sequence[str]) -> None:
    """Refuse a graph of which pnnx says that it is wrong, or that has layers which ncnn lacks."""
    import ncnn

    absent = [kind for kind in layers_of(graph) if ncnn.layer_to_index(kind) < 0]
    if absent:
        raise UnsupportedError(f"ncnn has no layer for {', '.join(absent)[:_REASON]}.")
    refused = dict.fromkeys(line.rstrip("!.") for line in said if _REFUSED.search(line))
    if refused:
        raise UnsupportedError(f"pnnx cannot convert it: {'; '.join(refused)[:_REASON]}.")


def _ports(script: Path, as_float: Sequence[bool], outputs: int) -> Ports:
    """Read from pnnx's example script, without running it, how each tensor is handed over."""
    text = script.read_text(encoding="utf-8")
    found = _INPUT.findall(text)
    given = tuple(
        Port(blob, int(batch)) for blob, batch in zip(_EXTRACT.findall(text), _OUTPUT.findall(text), strict=False)
    )
    if (len(found), len(given)) != (len(as_float), outputs):
        raise LowerError(
            f"pnnx wrote {len(found)} inputs and {len(given)} outputs, where the program has {len(as_float)} and "
            f"{outputs}."
        )
    return Ports(tuple(Port(blob, int(batch), one) for (blob, batch), one in zip(found, as_float, strict=True)), given)
