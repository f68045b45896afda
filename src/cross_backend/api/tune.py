"""Tune: the fastest backend, precision, threads and batch size within bounds."""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import Any

from cross_backend.api.arguments import checked, chosen_targets, described, logged, logger, named, path_of, required
from cross_backend.api.models import Model, file_stem
from cross_backend.cache import Cache
from cross_backend.comparison.site import Site
from cross_backend.comparison.sites import site_at
from cross_backend.errors import UsageError
from cross_backend.names.target import Target
from cross_backend.places.address import parse
from cross_backend.program.captured import OnnxProgram
from cross_backend.store import Store
from cross_backend.study import fields
from cross_backend.study.module_file import module_file, program_file
from cross_backend.study.spec import StudySettings, StudySpec, WorkloadSpec
from cross_backend.trust import keep
from cross_backend.tuning import search
from cross_backend.tuning.bounds import Bounds
from cross_backend.tuning.halving import Rungs
from cross_backend.tuning.space import default_targets, expanded, thread_counts
from cross_backend.tuning.tuned import Tuned, export_command
from cross_backend.workloads import Workload, find_workload


def tune(
    model: Model,
    targets: Sequence[str | Target] | str | None = None,
    inputs: Sequence[Any] | None = None,
    *,
    max_drop: float = 0.01,
    max_ms: float | None = None,
    max_size: int | str | None = None,
    max_memory: int | str | None = None,
    platform: str | None = None,
    precisions: Sequence[str] = (),
    threads: Sequence[int] = (),
    batch_sizes: Sequence[int] = (),
    seconds: float = 5.0,
    num_runs: int = 1000,
    launches: int = 5,
    seed: int = 0,
    on: str = "local",
    db: str | None = None,
    name: str | None = None,
    weights: str | PathLike[str] | None = None,
    calibration: str | PathLike[str] | None = None,
    task: str | None = None,
    jobs: int = 0,
    timeout_s: float = 600.0,
    trust: bool = False,
) -> Tuned:
    """Find the fastest backend, precision, threads and batch size within bounds.

    Every launch is stored; the same call goes on where an earlier one was cut off.

    Example:
        >>> tuned = xb.tune("digits_cnn", ["xnnpack", "cpu"], max_drop=0.005)  # doctest: +SKIP
        >>> print(tuned.winner.target, tuned.command)  # doctest: +SKIP

    Args:
        model: as ``compare`` takes it, but no ``Workload``.
        targets: backends with options; those of a comparison where None.
        inputs: as ``compare`` takes them.
        max_drop: largest loss of accuracy against float32: 0.005 is half a point, or a perplexity half a per cent
            higher.
        max_ms: longest median of a call, milliseconds.
        max_size: largest file: bytes, or ``20MB``.
        max_memory: largest peak memory of the process: bytes, or ``200MB``.
        platform: take this platform's backends instead of ``targets``.
        precisions: those that are tried; all of each backend where empty.
        threads: numbers of CPU threads that are tried; powers of two and all processors where empty.
        batch_sizes: those that are tried, by latency an item; the model's own where empty.
        seconds: most seconds of timed calls of a finalist.
        num_runs: maximum number of timed calls of a finalist.
        launches: process launches of a finalist.
        seed: of the visiting order.
        on: machine that measures: ``local``, ``ssh://user@host``.
        db: where launches are stored: a file or ``postgresql://…``; the default place where None.
        name: what results call a program; ``model`` where None.
        weights: see ``compare``.
        calibration: see ``compare``.
        task: see ``compare``.
        jobs: most worker processes that lower; one per processor where 0.
        timeout_s: seconds to wait for a lowering or an answer.
        trust: see ``compare``.

    Returns:
        ``winner``, ``unbeaten`` candidates, every candidate that was ``tried``, and the ``command`` that exports it.

    Raises:
        UsageError: an argument does not fit; the text names it.
        CaptureError: the model cannot be captured.
        StoreError: the store cannot be used.
    """
    texts = chosen_targets(targets, platform, default_targets())
    bounds = Bounds(
        required("max_drop", max_drop),
        checked("max_ms", max_ms),
        checked("max_size", max_size),
        checked("max_memory", max_memory),
    )
    address = named("on", parse, named("on", fields.text, on))
    for one in listed("precisions", precisions):
        named("precisions", fields.known_precision, one)
    counts = [required("threads", one) for one in listed("threads", threads)]
    batches = [required("batch_sizes", one) for one in listed("batch_sizes", batch_sizes)]
    text, own = _file(model, inputs, batches, name)
    cache = Cache()
    if trust and Path(text).suffix == ".pt2" and Path(text).is_file():
        keep(cache, Path(text))
    with site_at(address, cache) as site, Store.open(db) as store:
        asked = asked_of(
            text,
            texts,
            site,
            bounds,
            weights=None if weights is None else str(path_of("weights", weights)),
            inputs=own,
            calibration=path_of("calibration", calibration),
            task=task,
            precisions=precisions,
            threads=counts,
            batch_sizes=batches,
            seconds=required("seconds", seconds),
            num_runs=required("num_runs", num_runs),
            launches=required("launches", launches),
            seed=required("seed", seed),
            timeout_s=required("timeout_s", timeout_s),
            jobs=required("jobs", jobs),
        )
        told = search.Told(
            lambda doing, share, left: logger.debug("tune: %s: %.0f %% %s", doing, share * 100, left),
            logged(),
            lambda what: logger.info("tune: %s: stored", what),
        )
        try:
            return search.tune(asked, store, cache, site, told)
        finally:
            for line in store.told:
                logger.warning("%s", line)


def asked_of(
    model: str,
    targets: Sequence[str],
    site: Site,
    bounds: Bounds,
    *,
    weights: str | None = None,
    inputs: Sequence[Path] = (),
    calibration: Path | None = None,
    task: str | None = None,
    precisions: Sequence[str] = (),
    threads: Sequence[int] = (),
    batch_sizes: Sequence[int] = (),
    seconds: float = 5.0,
    num_runs: int = 1000,
    launches: int = 5,
    seed: int = 0,
    timeout_s: float = 600.0,
    jobs: int = 0,
    prefix: str = "",
) -> search.Asked:
    """Return what is searched on a machine.

    Args:
        model: a name or a file.
        targets: backends with options.
        site: the machine.
        bounds: what a winner may cost.
        weights: see :func:`tune`; the other ones, too.
        inputs: paths of the user's own inputs.
        calibration: see :func:`tune`.
        task: see :func:`tune`.
        precisions: see :func:`tune`.
        threads: see :func:`tune`.
        batch_sizes: see :func:`tune`.
        seconds: see :func:`tune`.
        num_runs: see :func:`tune`.
        launches: see :func:`tune`.
        seed: see :func:`tune`.
        timeout_s: see :func:`tune`.
        jobs: see :func:`tune`.
        prefix: what stands before an argument's name in messages: the command line's dashes.

    Raises:
        UsageError: a value that is not allowed.
    """
    workload = WorkloadSpec.find(model, weights, Path(), inputs=[str(path) for path in inputs])
    try:
        settings = StudySettings(
            seconds=seconds,
            launches=launches,
            max_launches=max(launches, 15),
            seed=seed,
            timeout_s=timeout_s,
            instruments=("memory",),
            jobs=jobs,
        )
        spec = StudySpec(
            f"tune {workload.name}"[:100],
            (workload,),
            expanded(targets, precisions, threads or thread_counts(site.machine.usable_cpus)),
            tuple(batch_sizes) or (1,),
            settings=settings,
            places=(site.name,),
        )
    except UsageError as error:
        raise UsageError(f"{prefix}{error}") from error
    return search.Asked(
        spec,
        lambda batch: find_workload(model, weights, batch if batch_sizes else None, inputs, calibration, task),
        lambda one: export_command(
            model,
            one.target,
            batch=one.batch if batch_sizes else None,
            weights=weights,
            inputs=inputs,
            calibration=calibration,
        ),
        bounds,
        Rungs(launches),
        num_runs,
    )


def listed(name: str, given: Any) -> list[Any]:
    """Return the values of a list.

    Raises:
        UsageError: it is none.
    """
    if isinstance(given, str) or not isinstance(given, Sequence):
        raise UsageError(f"{name}: a list is expected, such as [1, 4], not {described(given)}.")
    return list(given)


def _file(model: Any, inputs: Any, batches: Sequence[int], name: str | None) -> tuple[str, list[Path]]:
    """Return the name or the file of a model, and paths of the user's own inputs."""
    if isinstance(model, str | PathLike):
        return str(model), [Path(str(path_of("inputs", one))) for one in listed("inputs", inputs or ())]
    if isinstance(model, Workload):
        raise UsageError("model: a name, a file, a program or a module is expected, not a Workload.")
    if isinstance(model, OnnxProgram):
        return str(model.path), []
    import torch

    if isinstance(model, torch.export.ExportedProgram):
        return str(program_file(model, "model" if name is None else file_stem(name))), []
    try:
        return str(module_file(model, inputs, tuple(batches) or (1,))), []
    except UsageError as error:
        raise UsageError(f"model: {error}") from error
