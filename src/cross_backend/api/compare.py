"""Compare: which targets are right, and how fast they are."""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from typing import TYPE_CHECKING, Any

from cross_backend.api.arguments import (
    chosen_targets,
    log_progress,
    logged,
    logger,
    named,
    path_of,
    required,
    settings_of,
)
from cross_backend.api.models import Model, subject
from cross_backend.cache import Cache
from cross_backend.comparison import panel
from cross_backend.comparison.settings import Settings
from cross_backend.comparison.sites import site_at
from cross_backend.errors import PlaceError, PlaceLostError
from cross_backend.exporting.export import ExportSettings
from cross_backend.names.platforms import COMPARED, find_platform
from cross_backend.names.target import Target
from cross_backend.places.address import parse
from cross_backend.report.files import writable_folder
from cross_backend.study import fields

if TYPE_CHECKING:
    from cross_backend.records import Panel

_DEFAULT = Settings()


def compare(
    model: Model,
    targets: Sequence[str | Target] | str | None = None,
    inputs: Sequence[Any] | None = None,
    *,
    platform: str | None = None,
    precision: str | None = None,
    threads: int = _DEFAULT.threads,
    seconds: float = _DEFAULT.seconds,
    num_runs: int = _DEFAULT.num_runs,
    launches: int | None = None,
    margin: float | None = None,
    max_launches: int = _DEFAULT.max_launches,
    seed: int = _DEFAULT.seed,
    on: str = "local",
    name: str | None = None,
    weights: str | PathLike[str] | None = None,
    batch: int | None = None,
    calibration: str | PathLike[str] | None = None,
    task: str | None = None,
    output_dir: str | PathLike[str] | None = None,
    jobs: int = 0,
    timeout_s: float = _DEFAULT.timeout_s,
    min_on_device: float = _DEFAULT.min_on_device,
    memory_limit_bytes: int | None = None,
    found_from: float = _DEFAULT.found_from,
    box_s: float = _DEFAULT.box_s,
    together: int | None = None,
    skip_throttled: bool = False,
    trust: bool = False,
) -> Panel:
    """Lower, verify, measure and rank.

    Example:
        >>> panel = xb.compare(model, ["torch", "xnnpack", "openvino"], (example,), seconds=2)  # doctest: +SKIP
        >>> print(panel.ranked[0].target)  # doctest: +SKIP
        openvino
        >>> panel = xb.compare("mobilenet_v3_small", platform="linux", margin=0.01)  # doctest: +SKIP

    Args:
        model: a captured program, a module with its ``inputs``, a ``Workload``, or what the command line takes: a
            workload's name, ``file.py:function``, a file.
        targets: backends with options; those that ``cross-backend compare`` takes where None.
        inputs: positional example inputs of a module. Of a named model or a file: paths of your own inputs, which are
            verified, too.
        platform: take this platform's backends instead of ``targets``.
        precision: of every target that names none.
        threads: CPU threads of each target.
        seconds: most seconds of timed calls of each target.
        num_runs: maximum number of timed calls of each target.
        launches: process launches of each target. None: until every place is decided.
        margin: launch again until every ratio to the fastest is this precise: 0.01 is 1 %.
        max_launches: most launches where ``margin`` is not reached.
        seed: of the visiting order.
        on: machine that measures: ``local``, ``ssh://user@host``, ``adb:SERIAL``.
        name: what results call a program or a module; ``model`` where None.
        weights: checkpoint file or published weights, of a named model.
        batch: batch size of a named model; its own where None.
        calibration: inputs of int8, of a named model: an ``.npz`` file or a folder.
        task: ``file.py:function`` that returns the task, of a named model.
        output_dir: folder for the artifacts; the cache only where None.
        jobs: most worker processes that lower; one per processor where 0.
        timeout_s: seconds to wait for an answer of a worker.
        min_on_device: share of the work that must run on the device that was asked for; below it there is no rank.
        memory_limit_bytes: memory that a worker may use.
        found_from: difference between neighbours that is detected before launching ends.
        box_s: seconds after which no further launch begins, with neither ``launches`` nor ``margin``.
        together: most targets that are open at once.
        skip_throttled: leave out rounds in which a phone slowed its processor down.
        trust: open a ``.pt2`` file although it holds code and was not made on this machine; remembered by its digest.

    Returns:
        A panel: one result a target, in their order; ``panel.ranked`` has the fastest first.

    Raises:
        UsageError: an argument does not fit; the text names it.
        CaptureError: the model cannot be captured.
        PlaceError: the machine of ``on`` cannot be reached, or was lost.
    """
    texts = chosen_targets(targets, platform, COMPARED, precision)
    address = named("on", parse, named("on", fields.text, on))
    settings = settings_of(
        here=address.kind == "local",
        num_runs=num_runs,
        seconds=seconds,
        threads=threads,
        timeout_s=timeout_s,
        seed=seed,
        launches=launches,
        max_launches=max_launches,
        margin=margin,
        min_on_device=min_on_device,
        memory_limit_bytes=memory_limit_bytes,
        found_from=found_from,
        box_s=box_s,
        together=together,
        skip_throttled=skip_throttled,
        platform=None if platform is None else find_platform(platform).name,
    )
    cache, folder = Cache(), path_of("output_dir", output_dir)
    exporting = ExportSettings(cache, required("jobs", jobs), output_dir=folder and writable_folder(folder))
    given = {"weights": weights, "batch": batch, "calibration": calibration, "task": task}
    compared = subject(model, inputs, cache, name=name, trust=trust, **given)  # type: ignore[arg-type]
    try:
        with site_at(address, cache) as site:
            found = panel.compare(compared, texts, settings, exporting, logged(), log_progress, site=site)
    except PlaceLostError as error:
        raise PlaceError(f"{error}. Nothing was measured there.") from error
    logger.info("%s: %d of %d targets ranked", found.workload, len(found.ranked), len(found.results))
    return found
