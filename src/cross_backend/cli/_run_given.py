"""Run once on given or random inputs: there is nothing to compare the outputs with, so nothing is timed or ranked."""

from __future__ import annotations

import argparse
import tempfile
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cross_backend.cli import print_json
from cross_backend.cli._run_media import check_output, run_media
from cross_backend.cli._run_steps import run_once
from cross_backend.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cross_backend.backend import Backend
    from cross_backend.bench.bench import Bench
    from cross_backend.cli._run_steps import Work
    from cross_backend.report.terminal import Terminal
    from cross_backend.tensors import TensorSpec
    from cross_backend.workloads.media import Media

UNVERIFIED = "unverified: it has no sample to compare with, so it is not timed"


@dataclass(frozen=True)
class Given:
    """What is run."""

    name: str
    workload: str
    target: str
    inputs: Sequence[TensorSpec]
    is_unverified: bool
    """Whether it has no sample that could have proved it right."""
    media: Media | None = None
    """What its inputs are made of; None where that are tensors."""

    @property
    def unverified(self) -> str:
        """Why the outputs may be wrong; empty where a sample proved them."""
        return UNVERIFIED if self.is_unverified else ""

    def print_json(self, head: Sequence[float], **more: Any) -> None:
        """Print the document of a run: the first values of its first output, and what more there is to show."""
        from cross_backend.records import finite

        document = {"schema": 1, "workload": self.workload, "target": self.target}
        why = {"verified": False, "reason": self.unverified} if self.is_unverified else {}
        print_json({**document, "output": [finite(value) for value in head], **more, **why})


def foreign_reader(path: Path) -> Backend | None:
    """Return who reads a file that others made: a program without a manifest beside it, its own or a bundle's."""
    from cross_backend.bench.foreign import reader_of
    from cross_backend.bundling.manifest import MANIFEST

    manifests = (path.with_suffix(".json"), path.with_name(MANIFEST))
    alone = path.is_file() and not any(manifest.is_file() for manifest in manifests)
    return reader_of(path) if alone else None


def run_foreign(work: Work, reader: Backend) -> int:
    """Run a file of others once, on ``--input`` or random inputs.

    Raises:
        UnavailableError: what reads it, or its delegate, cannot run here.
        UnsupportedError, LoadError, RunError: it cannot be read, or fails.
    """
    from cross_backend.bench.bench import Subject
    from cross_backend.bench.foreign import Describe
    from cross_backend.bench.worker_bench import WorkerBench
    from cross_backend.registry import check_runs, resolve
    from cross_backend.worker.process import Worker

    args, settings, cache = work.args, work.settings, work.cache
    path = args.artifact.resolve()
    if args.profile:
        raise UsageError(f"--profile needs a sample to verify with, and {args.artifact} has none.")
    python = check_runs(resolve(reader.name)).python
    with ExitStack() as stack:
        worker = stack.enter_context(Worker(cache.log("run"), python))
        found, inputs = worker.ask(Describe(path), settings.timeout_s)
        resolved = work.site.check_runs(resolve(found))
        target = str(resolved.target)
        if work.site.name != "local":
            bench = work.site.start_bench(target, settings, cache, stack)
        else:
            if resolved.python != python:
                worker = stack.enter_context(Worker(cache.log("run"), resolved.python))
            bench = WorkerBench(worker, settings.timeout_s)
        bench.open(Subject(path, target, settings.threads, has_manifest=False))
        run_given(args, Given(path.name, path.stem, target, inputs, is_unverified=True), bench, work.terminal)
    return 0


def run_given(args: argparse.Namespace, given: Given, bench: Bench, terminal: Terminal) -> None:
    """Run what a bench has open on ``--input``, or where there is none on what is bound, and print."""
    is_file = args.input is not None and Path(args.input).suffix != ".npz" and Path(args.input).is_file()
    check_output(given.media if is_file else None, args.output, args.input or "a random input")
    if is_file and given.media is not None:
        run_media(args, given, given.media, bench, terminal)
        return
    with tempfile.TemporaryDirectory() as folder:
        if args.input is not None:
            bench.bind(_inputs_file(args.input, given, Path(folder), is_file=is_file))
        head = run_once(bench, args.output)
    if args.json:
        given.print_json(head)
        return
    shown = ", ".join(f"{value:.6f}" for value in head)
    more = "" if args.output is None else f"; all outputs are in {args.output}"
    on = "" if args.input is not None else " (random inputs)"
    mark, why_not = ("⚠️", f"; {given.unverified}") if given.is_unverified else ("✅", "")
    terminal.text(f"{mark} {given.workload} on {given.target}: {shown}{on}{more}{why_not}")
    if given.is_unverified and args.artifact.suffix == ".onnx":
        terminal.text(f"   'cross-backend compare {args.artifact}' compares it with ONNX's reference evaluator")


def _inputs_file(text: str, given: Given, folder: Path, *, is_file: bool) -> Path:
    """Return a tensor file for ``--input``: the user's own, or numbers shaped like the first input."""
    import numpy as np

    from cross_backend.tensors import dtype_of, save_tensors

    if Path(text).suffix == ".npz":
        if not Path(text).is_file():
            raise UsageError(f"{text} does not exist.")
        return Path(text)
    if is_file:
        raise UsageError(
            f"--input {text}: {given.name} does not name the kind of its inputs, so it takes numbers or a .npz "
            "file. Built-in models name it; export yours again."
        )
    try:
        numbers = np.array([float(part) for part in text.split(",")])
    except ValueError:
        file = f"{given.media.what} in a file" if given.media is not None else "a .npz file"
        raise UsageError(f"--input takes numbers such as 1,2,3,4 or {file}, not {text!r}.") from None
    if len(given.inputs) != 1:
        raise UsageError(f"{given.name} has {len(given.inputs)} inputs; give them in a .npz file.")
    spec = given.inputs[0]
    shape = [n if isinstance(n, int) else 1 for n in spec.shape]
    if numbers.size != int(np.prod(shape)):
        raise UsageError(f"input {spec.name!r} is {spec}: {int(np.prod(shape))} numbers, not {numbers.size}.")
    path = folder / "inputs.npz"
    save_tensors(path, {"input": [numbers.reshape(shape).astype(dtype_of(spec.dtype))]})
    return path
