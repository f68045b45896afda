"""A workload becomes a captured one, once: its program, sample inputs, and the outputs that eager float32 computes."""

from __future__ import annotations

import functools
import hashlib
import json
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cross_backend.artifact import digest_path
from cross_backend.errors import CaptureError, RunError
from cross_backend.names.task_metrics import PERPLEXITY
from cross_backend.program.capture import capture, digest_program, example_inputs, ports_of
from cross_backend.program.captured import (
    CALIBRATED_ON,
    CALIBRATION,
    MEDIA,
    METRIC,
    PROOF,
    STRUCTURE,
    TASK,
    Captured,
    OnnxProgram,
    Program,
)
from cross_backend.program.flattening import flat_call, flat_tensors, flatten, structure_of
from cross_backend.program.flops import count_flops
from cross_backend.program.layout import row_major
from cross_backend.program.lines import digest_lines
from cross_backend.program.onnx_file import read_onnx
from cross_backend.program.pt2 import load_pt2, save_pt2
from cross_backend.program.reference import Reference, reference_sample, run_eagerly
from cross_backend.program.running import Runs
from cross_backend.program.state import STATE, name_of, state_of, stored, value_of
from cross_backend.serialization import to_json
from cross_backend.structure import Structure
from cross_backend.tensors import TensorSpec, check_inputs, load_tensors, save_tensors, to_numpy
from cross_backend.verify.further import OWN, KnownInput, further_groups
from cross_backend.verify.probes import ProbeInput
from cross_backend.workloads import Task, Workload
from cross_backend.workloads.batching import check_row, fix_batch, row_of
from cross_backend.workloads.calibration import SEED, read_calibration
from cross_backend.workloads.media import PromptMedia
from cross_backend.workloads.own_inputs import read_own
from cross_backend.workloads.task import samples_for, sequences_for

if TYPE_CHECKING:
    from torch.export import ExportedProgram


def write_capture(workload: Workload, folder: Path) -> Captured:
    """Capture a built workload into an existing empty folder.

    Raises:
        CaptureError: it cannot be captured, or the captured program does not compute what eager computes.
    """
    started = time.perf_counter()
    if workload.labels:
        (folder / "labels.txt").write_text("\n".join(workload.labels) + "\n")
    if workload.media is not None:
        (folder / MEDIA).write_text(json.dumps(workload.media.to_json(), allow_nan=False) + "\n")
    if isinstance(workload.model, Path) and workload.model.suffix == ".onnx":
        if workload.own:
            raise CaptureError(
                f"{workload.name}: inputs of your own are not taken with ONNX files yet; leave out --inputs."
            )
        return _write_onnx(workload.model, workload, folder, started)
    return _write_torch(workload, folder, started)


def _leaves(inputs: Any) -> list[Any]:
    from torch.utils import _pytree

    return [leaf for leaf in _pytree.tree_leaves(inputs) if hasattr(leaf, "dtype")]


def write_program(program: ExportedProgram, name: str, folder: Path) -> Captured:
    """Store a program that the caller captured; its expected outputs are those of the program run eagerly."""
    started = time.perf_counter()
    program = _flattened(program, folder)
    inputs, module = example_inputs(program), Runs(program).module()
    reference = Reference(module, module)
    expected = run_eagerly(reference, inputs)
    return _store(program, Workload(name, module, inputs), folder, inputs, expected, reference, started)


def write_part(
    program: Program,
    name: str,
    folder: Path,
    inputs: Mapping[str, Any],
    outputs: Mapping[str, Any],
    calibration: Sequence[Mapping[str, Any]],
) -> Captured:
    """Store a part of a captured program with what is known of its values; nothing is computed.

    Args:
        program: flat.
        name: of the workload.
        folder: empty.
        inputs: name → array, in the order in which the part takes them.
        outputs: the same of what it returns.
        calibration: name → array, for each input that quantisers observe.
    """
    started = time.perf_counter()
    save_tensors(folder / "sample.npz", {"input": list(inputs.values()), "expected": list(outputs.values())})
    if isinstance(program, OnnxProgram):
        path = folder / "program.onnx"
        program.path.rename(path)
        digest = digest_path(path)
    else:
        path = folder / "program.pt2"
        save_pt2(program, path)
        digest = digest_program(program)
    rows = tuple(tuple(row[one] for one in inputs) for row in calibration)
    ports = {"inputs": inputs, "outputs": outputs}
    specs = {key: tuple(TensorSpec.of(*one) for one in arrays.items()) for key, arrays in ports.items()}
    return _write_record(folder, Workload(name, path, calibration=rows), path.name, digest, specs, None, started)


def _write_torch(workload: Workload, folder: Path, started: float) -> Captured:
    batch, has_rows = workload.batch or 1, None
    if isinstance(workload.model, Path):
        program = _flattened(load_pt2(workload.model), folder)
        inputs = example_inputs(program)
        module = Runs(program).module()
        reference = alone = Reference(module, module)
        if workload.batch is not None:
            inputs, has_rows = fix_batch(program, inputs, workload.batch, workload.model.name)
            program = capture(module, inputs) if any(has_rows) else program
    else:
        captured_as = capture(workload.model, workload.inputs, workload.dynamic_shapes, kwargs=workload.kwargs)
        inputs = row_major(flat_tensors(captured_as, workload.inputs, workload.kwargs))
        program = _flattened(captured_as, folder)
        reference = Reference(workload.model, flat_call(workload.model, captured_as))
        alone = Reference(workload.model, flat_call(workload.model, captured_as, any_constants=True))
    expected = run_eagerly(reference, inputs)
    for row in {0, batch - 1} if batch > 1 else ():
        given = row_of(inputs, row, has_rows)
        single = [to_numpy(y) for y in run_eagerly(alone, given)]
        again = functools.partial(_rounded_rows, alone, given)
        check_row(workload.name, batch, row, [to_numpy(y) for y in expected], single, again)
    return _store(program, workload, folder, inputs, expected, reference, started)


def _rounded_rows(alone: Reference, given: Sequence[Any]) -> list[Any]:
    """Return the outputs for inputs that are changed by a few rounding errors."""
    import torch

    def change(x: Any) -> Any:
        if not x.is_floating_point():
            return x
        steps = torch.randint(-4, 5, x.shape, generator=torch.Generator().manual_seed(0))
        return x * (1 + steps * torch.finfo(x.dtype).eps).to(x.dtype)

    return [to_numpy(y) for y in run_eagerly(alone, [change(x) for x in given])]


def _flattened(program: ExportedProgram, folder: Path) -> ExportedProgram:
    """Return a program of flat positional tensors; the model's own structure is kept in the folder."""
    flat, structure = flatten(program), structure_of(program)
    names = [str(name) for name in flat.graph_signature.user_inputs]
    if structure != Structure.of_flat(names, structure.outputs.count):
        (folder / STRUCTURE).write_text(json.dumps(structure.to_json(), allow_nan=False) + "\n")
    return flat


def _store(
    program: ExportedProgram,
    workload: Workload,
    folder: Path,
    inputs: Any,
    expected: Any,
    reference: Reference,
    started: float,
) -> Captured:
    from torch.utils import _pytree

    leaves = _pytree.tree_leaves(inputs)
    taken, given = ports_of(program)
    specs = {
        "inputs": tuple(_spec(*port, leaf) for port, leaf in zip(taken, leaves, strict=True)),
        "outputs": tuple(_spec(*port, leaf) for port, leaf in zip(given, expected, strict=True)),
    }
    state = {name_of(name): value_of(program, name) for name in state_of(program)}
    specs["state"] = tuple(TensorSpec.of(name, value) for name, value in state.items())
    save_pt2(program, folder / "program.pt2")
    flops = count_flops(program, inputs)
    own = _own(workload, specs["inputs"])
    groups, proof = reference_sample(program, workload.name, leaves, expected, reference, own, _steps(workload), flops)
    if state:
        groups[STATE] = stored([to_numpy(value).copy() for value in state.values()])
    save_tensors(folder / "sample.npz", groups)
    (folder / PROOF).write_text(json.dumps(proof) + "\n")
    return _write_record(
        folder, workload, "program.pt2", digest_program(program), specs, flops, started, digest_lines(program)
    )


def _steps(workload: Workload) -> list[list[Any]]:
    """Return the inputs of the workload's own calls after the first, NumPy arrays."""
    return [[to_numpy(leaf) for leaf in _leaves(step)] for step in workload.steps]


def _own(workload: Workload, specs: Sequence[TensorSpec]) -> list[ProbeInput]:
    """Return the user's own inputs, which must fit the program."""
    found = [ProbeInput(name, arrays) for path in workload.own for name, arrays in read_own(path, workload.media)]
    for one in found:
        try:
            check_inputs(specs, one.inputs)
        except RunError as error:
            raise CaptureError(f"{one.name} is no input of {workload.name}: {error}") from error
    return found


def _spec(name: str, value: Any, leaf: Any) -> TensorSpec:
    """Describe a user input or output; symbolic extents become texts."""
    shape = leaf.shape if value is None else value.shape
    dtype = str(leaf.dtype).removeprefix("torch.")
    return TensorSpec(name, dtype, tuple(n if isinstance(n, int) else str(n) for n in shape))


def _write_onnx(path: Path, workload: Workload, folder: Path, started: float) -> Captured:
    """Store an ONNX file as one file, with the outputs that are known to be right."""
    given = read_onnx(path, folder / "program.onnx", workload.batch)
    own = [KnownInput(one.name, one.inputs, given.run(one.inputs)) for one in _own(workload, given.inputs)]
    save_tensors(folder / "sample.npz", {**given.sample, **further_groups(OWN, own)})
    proof = {
        "reference": given.reference,
        "inputs": [one.name for one in own],
        "probes": given.probes,
        "dropped": given.dropped,
    }
    (folder / PROOF).write_text(json.dumps(proof) + "\n")
    digest = digest_path(folder / "program.onnx")
    specs = {"inputs": given.inputs, "outputs": given.outputs}
    return _write_record(folder, workload, "program.onnx", digest, specs, None, started)


def check_has_inputs(name: str, inputs: Sequence[Any]) -> None:
    """Refuse a model of constants.

    Raises:
        CaptureError: as it says.
    """
    if not inputs:
        raise CaptureError(f"{name} has no inputs: its outputs are constants and prove nothing. Give it a tensor.")


def _write_calibration(folder: Path, workload: Workload, specs: Sequence[TensorSpec]) -> None:
    """Store the inputs that quantisers observe, and where they are from."""
    examples = load_tensors(folder / "sample.npz")["input"]
    seed = None
    if workload.calibration_from is not None:
        path = workload.calibration_from
        chosen = read_calibration(path, workload.media, specs, examples, workload.name)
        rows, of, source = chosen.inputs, chosen.of, path.name
        seed = SEED if of > len(rows) else None
    else:
        rows = tuple(tuple(_leaves(row)) for row in workload.calibration)
        of, source = len(rows), "the workload"
    if rows:
        save_tensors(folder / CALIBRATION, {f"sample{i}": row for i, row in enumerate(rows)})
    told = {"inputs": len(rows) or 1, "of": of or 1, "seed": seed, "from": source if rows else "the example inputs"}
    (folder / CALIBRATED_ON).write_text(json.dumps(told) + "\n")


def _held_out(task: Task, workload: Workload, specs: Mapping[str, Sequence[TensorSpec]]) -> dict[str, Sequence[Any]]:
    """Return the groups of a task's file."""
    if task.metric != PERPLEXITY:
        return {"input": samples_for(task, specs["inputs"], workload.name), "label": [task.labels]}
    media = workload.media
    most = media.tokens if isinstance(media, PromptMedia) else None
    return {"input": [sequences_for(task, {"state": (), **specs}, workload.name, most)]}


def _write_record(
    folder: Path,
    workload: Workload,
    program_name: str,
    digest: str,
    specs: dict[str, tuple[TensorSpec, ...]],
    flops: int | None,
    started: float,
    lines: str = "",
) -> Captured:
    """Write what was captured; its digest is that of the program and of all tensors and labels stored beside it."""
    check_has_inputs(workload.name, specs["inputs"])
    if workload.task is not None:
        save_tensors(folder / TASK, _held_out(workload.task, workload, specs))
        (folder / METRIC).write_text(f"{workload.task.metric}\n{workload.task.origin}\n")
    _write_calibration(folder, workload, specs["inputs"])
    files = {path.name: digest_path(path) for path in sorted(folder.iterdir())}
    beside = [files[key] for key in files if key.endswith((".npz", ".txt", STRUCTURE))]
    row = {
        "workload": workload.name,
        "program_name": program_name,
        "digest": hashlib.sha256("".join([digest, *beside]).encode()).hexdigest(),
        "metric": workload.task.metric if workload.task else None,
        "flops": flops,
        "capture_s": time.perf_counter() - started,
        "batch": workload.batch or 1,
        "lines": lines,
        "files": files,
    }
    (folder / "capture.json").write_text(json.dumps({**row, **to_json(specs)}, indent=2) + "\n")
    return Captured.read(folder)
