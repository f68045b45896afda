"""From a captured program to a ``.vmfb``: IREE's importers in this process, its compiler in one of its own."""

from __future__ import annotations

import contextlib
import re
import tempfile
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from cross_backend.errors import LowerError, failing_as
from cross_backend.program.captured import OnnxProgram, Program
from cross_backend.program.composites import has_attention, plain_attention, with_gelu_by_sigmoid, without_composites

ENTRY = "main"
"""Function that sessions call."""
_ONNX_OPSET = 17
"""What IREE's importer reads best; older files are converted first."""


def write_module(program: Program, path: Path, flags: Sequence[str], notes: dict[str, str]) -> None:
    """Import a program and compile it.

    Args:
        program: not modified.
        path: receives the module.
        flags: of iree-compile, beside those for the kind of program.
        notes: written into the module's entry, where a session can read them.

    Raises:
        LowerError: with the compiler's reason.
    """
    kind = "onnx" if isinstance(program, OnnxProgram) else "torch"
    flags = [f"--iree-input-type={kind}", *flags]
    try:
        _write(program, path, flags, notes)
        return
    except LowerError:
        if isinstance(program, OnnxProgram):
            raise
    if has_attention(program):
        with contextlib.suppress(LowerError):  # its fused attention takes no mask, and not every device
            _write(program, path, flags, notes, fused=False)
            return
    _write(program, path, flags, notes, fused=False, whole=True)  # it lacks composite operators such as GRU


def _write(
    program: Program,
    path: Path,
    flags: Sequence[str],
    notes: dict[str, str],
    *,
    fused: bool = True,
    whole: bool = False,
) -> None:
    source = path.with_suffix(".mlirbc")
    try:
        with failing_as(LowerError, "IREE cannot import it"), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch's and turbine's own, about each other
            onnx = isinstance(program, OnnxProgram)
            module = _import_onnx(program) if onnx else _import_torch(program, fused=fused, whole=whole)
            _annotate(module, notes)
            with source.open("wb") as file:
                module.write_bytecode(file)
        _compile(source, path, flags)
    finally:
        source.unlink(missing_ok=True)


def default_target(device: str) -> str:
    """Return what the compiler makes for a device if nothing more is said: the text of a ``#hal.device.target``.

    Raises:
        LowerError: the compiler does not know the device.
    """
    with tempfile.TemporaryDirectory() as folder:
        source, shown = Path(folder) / "one.mlir", Path(folder) / "sources.mlir"
        source.write_text(
            "func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {\n"
            "  %y = arith.addf %x, %x : tensor<4xf32>\n  return %y : tensor<4xf32>\n}\n"
        )
        _compile(source, shown, [f"--iree-hal-target-device={device}", "--compile-to=executable-sources"])
        text = shown.read_text()
    found = re.search(r"= (#hal\.device\.target<.*>) : !hal\.device\b", text, re.MULTILINE)
    if found is None:
        raise LowerError(f"iree-compile does not say what it makes for {device}.")
    return found[1]


def _import_torch(program: Any, *, fused: bool, whole: bool) -> Any:
    """Import through iree-turbine, which wants the operators that training needs decomposed.

    Args:
        program: an ``ExportedProgram``; not modified.
        fused: whether attention stays one operator, or becomes products and a softmax.
        whole: whether every composite operator is taken apart, into those of ATen's core.
    """
    import torch
    from iree.turbine import aot

    table = dict(aot.decompositions.current_aot_decompositions())
    if not fused:
        table[torch.ops.aten.scaled_dot_product_attention.default] = plain_attention
    if whole:
        table = {**dict(torch.export.default_decompositions().items()), **table}
    plain = with_gelu_by_sigmoid(without_composites(program))  # its tanh is inexact
    return aot.export(plain.run_decompositions(table), function_name=ENTRY).mlir_module


def _import_onnx(program: Any) -> Any:
    """Import through the importer in IREE's compiler package."""
    import onnx
    from iree.compiler.extras import onnx_importer
    from iree.compiler.ir import Context

    model = onnx.load(program.path)
    opset = next((entry.version for entry in model.opset_import if entry.domain in {"", "ai.onnx"}), _ONNX_OPSET)
    if opset < _ONNX_OPSET:
        model = onnx.version_converter.convert_version(model, _ONNX_OPSET)
    model = onnx.shape_inference.infer_shapes(model, data_prop=True)
    model.graph.name = ENTRY
    info = onnx_importer.ModelInfo(model)
    module = info.create_module(context=Context()).operation
    onnx_importer.NodeImporter.define_function(info.main_graph, module).import_all()
    return module


def _annotate(module: Any, notes: dict[str, str]) -> None:
    """Add notes to the entry's reflection, which IREE keeps in the compiled module."""
    from iree.compiler.ir import DictAttr, StringAttr

    with module.context:
        for function in module.regions[0].blocks[0].operations:
            if notes and "sym_name" in function.attributes and function.attributes["sym_name"].value == ENTRY:
                texts = {key: StringAttr.get(value) for key, value in notes.items()}
                function.attributes["iree.reflection"] = DictAttr.get(texts)


def _compile(source: Path, path: Path, flags: Sequence[str]) -> None:
    from iree.compiler.tools import CompilerToolError, compile_file

    try:
        compile_file(str(source), output_file=str(path), extra_args=list(flags))
    except CompilerToolError as error:
        raise LowerError(f"iree-compile failed: {_first_error(str(error))}") from error


def _first_error(text: str) -> str:
    """Return the first line in which the compiler calls something an error."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    said = next((line.partition("error: ")[2] for line in lines if "error: " in line), "")
    return (said or (lines[0] if lines else "it gave no reason"))[:300]
