"""Studies from Python: a file, a mapping or three lines; what they gave is shown, converted and written."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cross_backend.errors import UsageError, unknown_name
from cross_backend.records import Panel, StudyResults
from cross_backend.study.fields import shown
from cross_backend.study.module_file import module_file
from cross_backend.study.spec import HERE, StudySettings, StudySpec, WorkloadSpec

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl
    import torch

logger = logging.getLogger(__name__)


def _read(source: Any) -> tuple[Path, StudySpec]:
    """Return where a study's relative paths begin, and the study."""
    from cross_backend.study.yaml_file import read_mapping, read_study

    if isinstance(source, Mapping):
        return Path(), read_mapping(source, Path())
    if isinstance(source, str | PathLike):
        return Path(source).parent, read_study(Path(source))
    given = shown(source)
    raise UsageError(f"source: the path of a study file or a mapping with its keys is expected, not {given}.")


def _trust(path: Path) -> None:
    from cross_backend.cache import Cache
    from cross_backend.trust import keep

    keep(Cache(), path)


def _settings(given: Mapping[str, Any]) -> StudySettings:
    known = [one.name for one in fields(StudySettings)]
    for key in given:
        if key not in known:
            raise unknown_name("setting", key, known)
    return StudySettings(**given)


class Study:
    """Models × targets × batch sizes × precisions × threads: measured, stored, resumed where it was cut off.

    Example:
        >>> rows = {"workloads": ["digits_cnn"], "targets": ["xnnpack", "cpu"], "batch_sizes": [1, 8]}
        >>> study = xb.Study.load(rows)
        >>> len(study.spec.panels())
        2
        >>> results = study.run()  # doctest: +SKIP
        >>> results.generate_report("report.html")  # doctest: +SKIP
    """

    def __init__(self, spec: StudySpec, *, db: str | None = None, quiet: bool = True) -> None:
        """Hold what is asked for; nothing is measured yet.

        Args:
            spec: what is measured.
            db: where every sample is stored: a file or ``postgresql://…``; the default place where None.
            quiet: show no progress on standard error. The logger ``cross_backend`` has it.
        """
        self.spec = spec
        self._db, self._quiet = db, quiet

    @classmethod
    def load(
        cls,
        source: str | PathLike[str] | Mapping[str, Any],
        *,
        db: str | None = None,
        quiet: bool = True,
        trust: bool = False,
    ) -> Study:
        """Read a study file, or a mapping with its keys.

        Args:
            source: path of a YAML file, or a mapping; its models' relative paths begin at the file or here.
            db: where every sample is stored; what ``output`` names where None.
            quiet: show no progress on standard error.
            trust: open ``.pt2`` files although they hold code that was not made here; remembered by their digests.

        Raises:
            UsageError: it cannot be read, or holds mistakes; each line names its key.
        """
        from cross_backend.study.reports import confined

        folder, spec = _read(source)
        named = spec.output.db
        if db is None and named is not None:
            db = named if "://" in named else str(confined(named, folder, "db"))
        for one in spec.workloads if trust else ():
            _trust(Path(one.model))
        return cls(spec, db=db, quiet=quiet)

    def run(self) -> Results:
        """Run it, or go on where an earlier run of the same study on this machine was cut off.

        Raises:
            UsageError: it names machines of a cluster.
            PlaceError: a machine cannot be reached.
            CrossBackendError: the store cannot be used.
        """
        from cross_backend.cache import Cache
        from cross_backend.report.terminal import Terminal
        from cross_backend.store import Store
        from cross_backend.study.watching import run_everywhere

        if self.spec.machines:
            raise UsageError("machines: a cluster is measured by 'cross-backend study run FILE --launcher ray'.")
        terminal = Terminal(quiet=self._quiet)
        with Store.open(self._db) as store:
            try:
                return Results(run_everywhere(self.spec, store, Cache(), terminal))
            finally:
                for text in store.told:
                    logger.warning("%s", text)
                    terminal.note(f"note: {text}")

    def results(self) -> Results:
        """Return what is stored of it, finished or not; nothing is measured.

        Raises:
            UsageError: nothing is stored.
            StoreError: the store cannot be used.
        """
        from cross_backend.store import Store
        from cross_backend.study.driver import joined, read

        wanted = [self.spec.at(place).digest for place in self.spec.places]
        with Store.open(self._db, create=False) as store:
            rows = {StudySpec.from_json(row.spec).digest: row.id for row in store.named(self.spec.name)}
            found = [read(store, rows[digest]) for digest in wanted if digest in rows]
        if not found:
            raise UsageError(f"nothing is stored of the study {self.spec.name!r}. Measure it with run().")
        return Results(joined(found))


class ComparisonRunner(Study):
    """Compare one model on several backends: verified, measured in interleaved rounds, ranked, stored.

    Example:
        >>> runner = ComparisonRunner(model="net.onnx", backends=["cpu", "cuda"], batch_sizes=[1, 4])  # doctest: +SKIP
        >>> results = runner.run()  # doctest: +SKIP
        >>> results.generate_report("comparison_report.html")  # doctest: +SKIP
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
            settings: fields of ``StudySettings``: seconds, margin, launches, …

        Raises:
            UsageError: an unknown model, target or setting, or a value that is not allowed.
            CaptureError: a torch module cannot be captured.
        """
        some = (
            WorkloadSpec("", ""),
        )  # the model's: a module is captured once all else is right, for that may take minutes
        try:
            given = (backends, batch_sizes, precisions, threads, _settings(settings))
            asked = StudySpec(name or "study", some, *given, places=places)  # type: ignore[arg-type]
            asked.check_names()
        except UsageError as error:
            raise UsageError(re.sub(r"^targets: ", "backends: ", str(error))) from error
        if not isinstance(model, str | Path):
            model = module_file(model, inputs, asked.batch_sizes)
        elif inputs is not None:
            raise UsageError("inputs go with a torch module; names and files bring their own.")
        if trust:
            _trust(Path(model))
        workload = WorkloadSpec.find(str(model), weights, Path())
        super().__init__(replace(asked, name=name or workload.name, workloads=(workload,)), db=db, quiet=quiet)

    @property
    def study(self) -> StudySpec:
        """What is measured: ``spec``."""
        return self.spec


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

    def to_dict(self) -> dict[str, Any]:
        """Return the same as :meth:`to_json`."""
        return self.to_json()

    def to_pandas(self) -> pd.DataFrame:
        """Return a row a target of each panel; units are in the names of the columns.

        Raises:
            UnavailableError: pandas is not installed.
        """
        from cross_backend.report import frames

        return frames.pandas(self.panels)

    def to_polars(self) -> pl.DataFrame:
        """Return a row a target of each panel; units are in the names of the columns.

        Raises:
            UnavailableError: Polars is not installed.
        """
        from cross_backend.report import frames

        return frames.polars(self.panels)

    def generate_report(self, path: str | Path) -> Path:
        """Write a report: ``.html``, ``.md`` or ``.json`` by the file's ending.

        Raises:
            UsageError: another ending, or a folder that cannot be made.
            ReportError, OSError: it cannot be written.
        """
        from cross_backend.study.reports import write_report

        return write_report(self.results, Path(path))
