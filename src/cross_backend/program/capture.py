"""Capture: a workload becomes a Program, once, with sample inputs and the outputs that eager float32 gives for them."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from cross_backend.artifact import digest_path
from cross_backend.errors import ArtifactError, CaptureError, RunError, one_line
from cross_backend.program.flattening import flat_call, flat_tensors, flatten, structure_of
from cross_backend.program.flops import count_flops
from cross_backend.program.layout import row_major
from cross_backend.program.onnx_file import read_onnx
from cross_backend.program.pt2 import load_pt2, save_pt2
from cross_backend.program.reference import Reference, reference_sample, run_eagerly
from cross_backend.program.running import Runs
from cross_backend.program.state import state_of
from cross_backend.serialization import from_json, to_json
from cross_backend.structure import Structure
from cross_backend.tensors import TensorSpec, check_inputs, from_numpy, load_tensors, save_tensors, to_numpy
from cross_backend.verify.further import OWN, KnownInput, further_groups
from cross_backend.verify.probes import ProbeInput
from cross_backend.workloads import Workload
from cross_backend.workloads.batching import check_row, fix_batch, row_of
from cross_backend.workloads.calibration import SEED, read_calibration
from cross_backend.workloads.own_inputs import read_own
from cross_backend.workloads.task import samples_for
from cross_backend.workloads.user_code import place_of, with_place

if TYPE_CHECKING:
    import torch
    from torch.export import ExportedProgram


@dataclass(frozen=True)
class OnnxProgram:
    """A program that is an ONNX file, for workloads that came as one."""

    path: Path
    """One file, its weights inside."""


Program: TypeAlias = "ExportedProgram | OnnxProgram"
"""What every backend lowers."""


STRUCTURE = "structure.json"
"""File beside a captured program that says what the model itself takes and gives."""

CALIBRATION = "calibration.npz"
"""File beside it with the inputs that quantisers observe; absent where that are the example inputs."""

CALIBRATED_ON = "calibration.json"
"""File beside it that says where those are from; no part of the digest."""

TASK = "task.npz"
METRIC = "metric.txt"
"""File beside it with the name of its metric, and the digest of the file that one of the user's own is from."""

PROOF = "proof.json"
"""File beside it that says what the sample and the probes reach; no part of the digest."""

MEDIA = "media.json"
"""File beside it that says what the inputs are made of and what the outputs mean; no part of the digest."""


@dataclass(frozen=True)
class Captured:
    """A captured workload on disk; immutable, the same for every backend."""

    folder: Path
    workload: str
    """Name of the workload."""
    program_name: str
    """``program.pt2`` or ``program.onnx``."""
    digest: str
    """Digest of the program's graph, weights, sample and labels."""
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    metric: str | None
    """Task metric, where the workload has a task."""
    flops: int | None
    """Floating point operations of one inference of the sample, a multiply-add being two, as torch's flop counter
    knows them: matrix products, convolutions, attention. None where they are not counted: ONNX files, free extents,
    control flow."""
    capture_s: float
    """Seconds that building and capturing took."""
    batch: int
    """Extent of the batch dimension that was asked for, 1 where none was; a task's samples are scored so many at a
    time."""
    files: Mapping[str, str]
    """Name → SHA-256 of every file in the folder but the record itself."""
    task_from: str | None = None
    """``FILE.py:function`` of a metric of the user's own; not in the record, which holds no code."""
    was_training: bool = False
    """Whether this capture switched the module to evaluation mode; not in the record, which is of its outcome."""

    @property
    def sample_path(self) -> Path:
        """What :func:`cross_backend.verify.sample.make_sample` gave."""
        return self.folder / "sample.npz"

    @property
    def task_path(self) -> Path:
        """Groups ``input`` and ``label``; only where ``metric`` is not None."""
        return self.folder / TASK

    @property
    def labels_path(self) -> Path | None:
        """One class name per line, where the workload has classes."""
        path = self.folder / "labels.txt"
        return path if path.is_file() else None

    @property
    def structure(self) -> Structure | None:
        """What the model itself takes and gives; None where that are flat tensors, one output as itself."""
        path = self.folder / STRUCTURE
        return Structure.from_json(json.loads(path.read_text())) if path.is_file() else None

    @property
    def media(self) -> Mapping[str, Any] | None:
        """What :meth:`Media.to_json` of the workload gave; None where it works on tensors."""
        path = self.folder / MEDIA
        return json.loads(path.read_text()) if path.is_file() else None

    @property
    def proof(self) -> Mapping[str, Any]:
        """What the expected outputs are, and what sample and probes reach; of ONNX files only the first.

        ``reference``: who gave the expected outputs;
        ``state``: buffers that a call changes; ``probes``: names; ``dropped``: probe → why; ``sides`` of all conditions
        of the program, how many were ``reached``, and the ``missed`` ones.
        """
        path = self.folder / PROOF
        return json.loads(path.read_text()) if path.is_file() else {}

    def check(self) -> None:
        """Compare the files with the record.

        Raises:
            ArtifactError: one is missing or was changed.
        """
        for name, wanted in self.files.items():
            if not (self.folder / name).is_file() or digest_path(self.folder / name) != wanted:
                raise ArtifactError(f"{self.folder / name} is missing or damaged.")

    def calibration(self) -> list[tuple[Any, ...]]:
        """Return the inputs for quantisers, NumPy arrays: the workload's own, or the sample."""
        path = self.folder / CALIBRATION
        return list(load_tensors(path).values()) if path.is_file() else [load_tensors(self.sample_path)["input"]]

    def calibrated_on(self) -> Mapping[str, Any] | None:
        """Return how many ``inputs`` quantisers observe, ``of`` how many, ``from`` where, and the choice's ``seed``."""
        path = self.folder / CALIBRATED_ON
        return json.loads(path.read_text()) if path.is_file() else None

    def program(self) -> Program:
        """Load the program; imports torch for ``.pt2``."""
        path = self.folder / self.program_name
        if path.suffix == ".onnx":
            return OnnxProgram(path)
        program = load_pt2(path)
        program.example_inputs = _structured(program, load_tensors(self.sample_path)["input"])
        return program

    @classmethod
    def read(cls, folder: Path) -> Captured:
        """Read what :func:`write_capture` wrote.

        Raises:
            ArtifactError: the folder is damaged.
        """
        try:
            row = json.loads((folder / "capture.json").read_text())
            for key in ("inputs", "outputs"):
                row[key] = from_json(tuple[TensorSpec, ...], row[key])
            return cls(folder=folder, **row)
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise ArtifactError(f"{folder} is not a captured workload ({one_line(error)}).") from error


def capture(
    module: torch.nn.Module,
    inputs: Sequence[Any] = (),
    dynamic_shapes: Any = None,
    *,
    kwargs: Mapping[str, Any] | None = None,
) -> ExportedProgram:
    """Capture a module with ``torch.export``.

    Args:
        module: put into evaluation mode for the capture.
        inputs: positional example inputs, in any structure; captured in row-major layout, because compilers bake the
            strides in. Numbers, texts and None among them become part of the program.
        dynamic_shapes: as ``torch.export.export`` takes them; static where None.
        kwargs: example inputs by name.

    Raises:
        CaptureError: torch cannot export it, or it takes or gives what cannot be shipped.
    """
    import torch

    if hasattr(inputs, "dtype"):  # a bare tensor is one input, not a sequence of rows
        inputs = (inputs,)
    try:
        with contextlib.suppress(NotImplementedError):  # a program's module has one mode
            module.eval()
        args, (named,) = row_major(inputs), row_major([dict(kwargs or {})])
        with torch.no_grad():
            program = torch.export.export(module, args, named or None, dynamic_shapes=dynamic_shapes)
    except Exception as error:
        raise CaptureError(f"torch.export cannot capture {type(module).__name__}: {_why(error)}") from error
    structure_of(program)  # says now what cannot be shipped
    for name in state_of(program):  # a later call of the module must not change the program's initial state
        table = program.state_dict if name in program.state_dict else program.constants
        table[name] = table[name].detach().clone()
    return program


_ON_DATA = ("GuardOnDataDependentSymNode", "DataDependentOutputException", "PendingUnbackedSymbolNotFound")
"""What torch raises where Python needs the value of a tensor."""


def _why(error: Exception) -> str:
    """Return why torch refuses a module, and in which line of it."""
    if type(error).__name__ in _ON_DATA or any(name in str(error) for name in _ON_DATA):
        place = place_of(error)
        return (
            f"{f'{place}: ' if place else ''}a branch or a size depends on data ({one_line(error, 160)}). "
            "Write a branch with torch.cond."
        )
    strange = re.match(r"(?:Found|Unsupported input type) <class '(.+?)'>", str(error))
    if strange is None:
        return with_place(error)
    name = strange[1].rpartition(".")[2]
    return (
        f"it takes or gives a {name}, which torch does not know: leave it out, make it a dict, or, if it is a "
        f"dataclass, call torch.export.register_dataclass({name}) before."
    )


def _structured(program: ExportedProgram, leaves: Sequence[Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return a program's positional and keyword inputs, of flat NumPy arrays."""
    from torch.utils import _pytree

    in_spec = program.call_spec.in_spec
    assert in_spec is not None, "torch.export always writes one"
    args, kwargs = _pytree.tree_unflatten([from_numpy(x) for x in leaves], in_spec)
    return tuple(args), dict(kwargs)


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
        captured_as = capture(workload.model, workload.inputs, kwargs=workload.kwargs)
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


def example_inputs(program: ExportedProgram) -> tuple[Any, ...]:
    """Return the positional inputs that a flat program was exported with.

    Raises:
        CaptureError: it has none, or such as compilers cannot be given.
    """
    if program.example_inputs is None:
        raise CaptureError(
            "the program holds no example inputs; export it again with torch.export.export(module, inputs)."
        )
    args, kwargs = program.example_inputs
    if kwargs:
        raise CaptureError("programs with keyword inputs are not supported; export the module with positional inputs.")
    return tuple(args)


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
    graph = {node.name: node for node in program.graph.nodes}
    signature = program.graph_signature
    specs = {
        "inputs": tuple(_spec(graph, n, leaf) for n, leaf in zip(signature.user_inputs, leaves, strict=True)),
        "outputs": tuple(_spec(graph, n, leaf) for n, leaf in zip(signature.user_outputs, expected, strict=True)),
    }
    save_pt2(program, folder / "program.pt2")
    groups, proof = reference_sample(
        program, workload.name, leaves, expected, reference, _own(workload, specs["inputs"])
    )
    save_tensors(folder / "sample.npz", groups)
    (folder / PROOF).write_text(json.dumps(proof) + "\n")
    flops = count_flops(program, inputs)
    return _write_record(folder, workload, "program.pt2", digest_program(program), specs, flops, started)


def _own(workload: Workload, specs: Sequence[TensorSpec]) -> list[ProbeInput]:
    """Return the user's own inputs, which must fit the program."""
    found = [ProbeInput(name, arrays) for path in workload.own for name, arrays in read_own(path, workload.media)]
    for one in found:
        try:
            check_inputs(specs, one.inputs)
        except RunError as error:
            raise CaptureError(f"{one.name} is no input of {workload.name}: {error}") from error
    return found


def _spec(graph: dict[str, Any], name: Any, leaf: Any) -> TensorSpec:
    """Describe a user input or output; symbolic extents become texts."""
    node = graph.get(str(name))
    shape = leaf.shape if node is None else node.meta["val"].shape
    dtype = str(leaf.dtype).removeprefix("torch.")
    return TensorSpec(str(name), dtype, tuple(n if isinstance(n, int) else str(n) for n in shape))


def digest_program(program: ExportedProgram) -> str:
    """Return the digest of what a program computes: all its graphs, its signature and tensors, not its file's times."""
    import torch

    top = program.graph_module
    graphs = {name: module.code for name, module in top.named_modules() if isinstance(module, torch.fx.GraphModule)}
    digest = hashlib.sha256(
        f"{json.dumps(graphs, sort_keys=True)}\0{program.graph_signature}\0{program.range_constraints}".encode()
    )
    inner = {f"{name}.": tensor for name, tensor in (*top.named_parameters(), *top.named_buffers())}
    tensors = {**inner, **program.state_dict, **program.constants}
    for name in sorted(tensors):
        tensor = tensors[name]
        digest.update(name.encode())
        if isinstance(tensor, torch.Tensor):
            digest.update(f"{tensor.dtype}{tuple(tensor.shape)}".encode())
            digest.update(tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()


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


def _write_record(
    folder: Path,
    workload: Workload,
    program_name: str,
    digest: str,
    specs: dict[str, tuple[TensorSpec, ...]],
    flops: int | None,
    started: float,
) -> Captured:
    """Write what was captured; its digest is that of the program and of all tensors and labels stored beside it."""
    check_has_inputs(workload.name, specs["inputs"])
    if workload.task is not None:
        samples = samples_for(workload.task, specs["inputs"], workload.name)
        save_tensors(folder / TASK, {"input": samples, "label": [workload.task.labels]})
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
        "files": files,
    }
    (folder / "capture.json").write_text(json.dumps({**row, **to_json(specs)}, indent=2) + "\n")
    return Captured.read(folder)
