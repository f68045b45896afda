"""ComparisonRunner: a study from Python, in three lines; its results write reports."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cross_backend.errors import UsageError, unknown_name
from cross_backend.records import Panel, StudyResults
from cross_backend.study.spec import HERE, Study, StudySettings, WorkloadSpec

if TYPE_CHECKING:
    import torch


def _store_module(module: torch.nn.Module, inputs: Sequence[Any] | None, batch_sizes: tuple[int, ...]) -> Path:
    """Capture a module into a ``.pt2`` file in the cache, with a free batch where sizes beside 1 are asked for."""
    import torch
    from torch.utils import _pytree

    from cross_backend.cache import Cache
    from cross_backend.lowering.free_batch import capture_free
    from cross_backend.program.capture import capture, digest_program
    from cross_backend.program.flattening import flatten
    from cross_backend.program.pt2 import save_pt2
    from cross_backend.workloads import Workload

    if not isinstance(module, torch.nn.Module):
        raise UsageError(f"model is a {type(module).__name__}; give a name, a path or a torch.nn.Module.")
    if inputs is None:
        raise UsageError("a torch module needs its example inputs: ComparisonRunner(model=module, inputs=(x,), …).")
    inputs = tuple(inputs) if isinstance(inputs, list | tuple) else (inputs,)  # a bare tensor is one input
    strange = [type(x).__name__ for x in _pytree.tree_leaves(inputs) if not isinstance(x, torch.Tensor)]
    if strange:
        raise UsageError(f"inputs are torch tensors, not {strange[0]}: ComparisonRunner(model=module, inputs=(x,), …).")
    name = type(module).__name__
    captured = capture(module, inputs) if batch_sizes == (1,) else capture_free(Workload(name, module.eval(), inputs))
    program = flatten(captured)  # its file can be read where the classes of its own structure are not known
    cache = Cache()
    path = cache.root / "modules" / digest_program(program)[:32] / f"{name}.pt2"
    if not path.is_file():
        with cache.scratch() as folder:
            save_pt2(program, folder / path.name, examples=True)
            path.parent.mkdir(parents=True, exist_ok=True)
            (folder / path.name).replace(path)
    return path


def _settings(given: Mapping[str, Any]) -> StudySettings:
    known = [one.name for one in fields(StudySettings)]
    for key in given:
        if key not in known:
            raise unknown_name("setting", key, known)
    return StudySettings(**given)


class ComparisonRunner:
    """Compare one model on several backends: verified, measured in interleaved rounds, ranked, stored.

    Example:
        >>> runner = ComparisonRunner(model="models/resnet50.onnx", backends=["cpu", "cuda"], batch_sizes=[1, 4])
        >>> results = runner.run()
        >>> results.generate_report("comparison_report.html")
    """

    def __init__(
        self,
        model: str | Path | torch.nn.Module,
        backends: Sequence[str],
        batch_sizes: Sequence[int] = (1,),
        precisions: Sequence[str] = (),
        threads: Sequence[int] = (1,),
        *,
        inputs: Sequence[Any] | None = None,
        weights: str | None = None,
        name: str | None = None,
        db: str | None = None,
        quiet: bool = False,
        trust: bool = False,
        places: Sequence[str] = HERE,
        **settings: Any,
    ) -> None:
        """Check what is asked for; a torch module is captured, everything else imports nothing heavy yet.

        Args:
            model: a built-in model's name, an ``.onnx`` or ``.pt2`` file, ``file.py:function``, or a torch module with
                its ``inputs``.
            backends: targets; what is not available here becomes a row with its reason.
            batch_sizes: extents of the batch dimension.
            precisions: asked of every target that names none; each target's own where empty.
            threads: CPU threads of every target that names none.
            inputs: positional example inputs of a torch module, with a leading extent of 1.
            weights: a checkpoint file or a published weights name, for built-in models.
            name: what reports call the study; the model's name where None.
            db: where every sample is stored: a file or ``postgresql://…``; the default place where None.
            quiet: show no progress on standard error.
            trust: open a ``.pt2`` file although it holds code that was not made here; remembered by its digest.
            places: machines that measure, each the whole study: ``local``, ``ssh://user@host``.
            settings: fields of :class:`cross_backend.study.spec.StudySettings`: seconds, margin, launches, …

        Raises:
            UsageError: an unknown model, target or setting, or a value that is not allowed.
            CaptureError: a torch module cannot be captured.
        """
        some = (
            WorkloadSpec("", ""),
        )  # the model's: a module is captured once all else is right, for that may take minutes
        try:
            given = (backends, batch_sizes, precisions, threads, _settings(settings))
            asked = Study(name or "study", some, *given, places=places)  # type: ignore[arg-type]
            asked.check_names()
        except UsageError as error:
            raise UsageError(re.sub(r"^targets: ", "backends: ", str(error))) from error
        if not isinstance(model, str | Path):
            model = _store_module(model, inputs, asked.batch_sizes)
        elif inputs is not None:
            raise UsageError("inputs go with a torch module; names and files bring their own.")
        if trust:
            from cross_backend.cache import Cache
            from cross_backend.trust import keep

            keep(Cache(), Path(model))
        workload = WorkloadSpec.find(str(model), weights, Path())
        self.study = replace(asked, name=name or workload.name, workloads=(workload,))
        self._db, self._quiet = db, quiet

    def run(self) -> Results:
        """Run it, or go on where an earlier run of the same study on this machine was cut off.

        Raises:
            CrossBackendError: the store cannot be used.
        """
        from cross_backend.cache import Cache
        from cross_backend.report.terminal import Terminal
        from cross_backend.store import Store
        from cross_backend.study.driver import joined
        from cross_backend.study.watching import run_at

        cache, terminal = Cache(), Terminal(quiet=self._quiet)
        with Store.open(self._db) as store:
            try:
                found = [run_at(self.study.at(place), store, cache, terminal) for place in self.study.places]
                return Results(joined(found))
            finally:
                for text in store.told:
                    terminal.note(f"note: {text}")


class Results:
    """What a study gave."""

    def __init__(self, results: StudyResults) -> None:
        self.results = results

    @property
    def panels(self) -> tuple[Panel, ...]:
        """One panel per batch size and number of threads; ``panel.ranked`` has the fastest first."""
        return self.results.panels

    def __str__(self) -> str:
        """Return the tables that ``cross-backend study run`` prints."""
        return str(self.results)

    def _repr_html_(self) -> str:
        """Return the tables that a notebook shows."""
        return self.results._repr_html_()

    def to_json(self) -> dict[str, Any]:
        """Return the JSON document that ``cross-backend study run --json`` prints."""
        from cross_backend.report.document import document

        return document(self.results)

    def generate_report(self, path: str | Path) -> Path:
        """Write a report: ``.html``, ``.md`` or ``.json`` by the file's ending.

        Raises:
            UsageError: another ending, or a folder that cannot be made.
            ReportError, OSError: it cannot be written.
        """
        from cross_backend.study.reports import write_report

        return write_report(self.results, Path(path))
