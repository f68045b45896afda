"""Localize: which operator of a model a backend computes wrongly, and the model with some of them elsewhere."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from os import PathLike
from typing import TYPE_CHECKING, Any

from cross_backend.api.arguments import checked, chosen_target, logged, logger, path_of, required, settings_of, texts
from cross_backend.api.models import Model, subject
from cross_backend.cache import Cache
from cross_backend.comparison.settings import Settings
from cross_backend.errors import UsageError
from cross_backend.exporting.export import ExportSettings, export
from cross_backend.names.target import Target
from cross_backend.program.captured import Captured
from cross_backend.report.files import writable_folder

if TYPE_CHECKING:
    from cross_backend.exporting.export import Exported
    from cross_backend.localization.found import KeptOut, Localized

_DEFAULT = Settings()


def localize(
    model: Model,
    inputs: Sequence[Any] | None = None,
    *,
    backend: str | Target,
    against: str | Target | None = None,
    adversarial: float | None = None,
    reproducer: str | PathLike[str] | None = None,
    threads: int = _DEFAULT.threads,
    name: str | None = None,
    weights: str | PathLike[str] | None = None,
    batch: int | None = None,
    calibration: str | PathLike[str] | None = None,
    timeout_s: float = _DEFAULT.timeout_s,
    trust: bool = False,
) -> Localized:
    """Find the smallest part of a model that a backend computes wrongly.

    Example:
        >>> found = xb.localize(model, (example,), backend="openvino", reproducer="report")  # doctest: +SKIP
        >>> print(found.says)  # doctest: +SKIP

    Args:
        model: as ``compare`` takes it.
        inputs: as ``compare`` takes them.
        backend: the target that is wrong.
        against: another target, with which it is compared in place of eager float32.
        adversarial: seconds of a search for inputs on which the backend is wrong; what it finds becomes a probe.
        reproducer: folder for a script that shows the fault with the vendor's package alone, and a text for its
            tracker; nothing is written where the two agree.
        threads: CPU threads.
        name: as ``compare`` takes it; ``weights``, ``batch``, ``calibration`` and ``trust``, too.
        weights: see ``compare``.
        batch: see ``compare``.
        calibration: see ``compare``.
        timeout_s: seconds to wait for an answer of a worker.
        trust: see ``compare``.

    Returns:
        What was found; ``found.culprit`` is ``nothing`` where the two agree.

    Raises:
        UsageError: an argument does not fit; the text names it.
        CaptureError: the model cannot be captured.
        UnavailableError, UnsupportedError: the backend cannot run it, or there is no reproducer of what was found.
    """
    from cross_backend.localization.found import Culprit
    from cross_backend.localization.localize import localize as find

    text, other = _targets(backend, against)
    seconds, folder = checked("adversarial", adversarial), path_of("reproducer", reproducer)
    settings, cache = settings_of(threads=threads, timeout_s=timeout_s), Cache()
    given = {"weights": weights, "batch": batch, "calibration": calibration}
    hunted = [] if seconds is None else [text, *([other] if other else [])]
    captured, rows = _exported(subject(model, inputs, cache, name=name, trust=trust, **given), hunted, cache)  # type: ignore[arg-type]
    if seconds is not None:
        from cross_backend.localization.hunting import hunt_all

        for one in hunt_all(captured, rows[:1], seconds, settings, cache, against=rows[1] if other else None):
            logger.info("%s", one.sentence)
    found = find(captured, text, other, cache=cache, settings=settings, observe=_steps(text))
    if folder is not None and found.culprit is not Culprit.NOTHING:
        from cross_backend.localization.vendors_script import reproducer_for

        made = reproducer_for(captured, found, writable_folder(folder), cache, lambda *_: None)
        logger.info("%s shows it by itself; %s is for the tracker", made.script, made.text)
    return found


def keep_out(
    model: Model,
    inputs: Sequence[Any] | None = None,
    *,
    backend: str | Target,
    nodes: Sequence[str] | str | None = None,
    max_drop: float | None = None,
    against: str | Target | None = None,
    threads: int = _DEFAULT.threads,
    name: str | None = None,
    weights: str | PathLike[str] | None = None,
    batch: int | None = None,
    calibration: str | PathLike[str] | None = None,
    timeout_s: float = _DEFAULT.timeout_s,
    trust: bool = False,
) -> KeptOut:
    """Run a model on a backend with some operators elsewhere: whether it is right then, and what that costs.

    Example:
        >>> kept = xb.keep_out("digits_cnn", backend="cpu?precision=int8", max_drop=0.01)  # doctest: +SKIP
        >>> print(kept.nodes, kept.drop, kept.parts_ms)  # doctest: +SKIP

    Args:
        model: as ``compare`` takes it.
        inputs: as ``compare`` takes them.
        backend: the target that computes the others.
        nodes: operators that it does not compute, by the names that ``localize`` prints.
        max_drop: for a quantised target, in place of ``nodes``: the fewest operators are kept in float so that at most
            this share of calibration inputs changes its likeliest class.
        against: the target that computes them; where None, the one on which the backend leaves operators.
        threads: CPU threads.
        name: as ``compare`` takes it; ``weights``, ``batch``, ``calibration`` and ``trust``, too.
        weights: see ``compare``.
        batch: see ``compare``.
        calibration: see ``compare``.
        timeout_s: seconds to wait for an answer of a worker.
        trust: see ``compare``.

    Returns:
        Which operators ran elsewhere, whether the outputs are right, and the latency of both ways.

    Raises:
        UsageError: an argument does not fit; the text names it.
        CaptureError: the model cannot be captured.
        UnavailableError, UnsupportedError: a target cannot run its part.
    """
    from cross_backend.localization import keep_out as keeping

    if (nodes is None) == (max_drop is None):
        came = "neither came" if nodes is None else "both came"
        raise UsageError(f"nodes and max_drop: one of them is expected, and {came}.")
    text, other = _targets(backend, against)
    names = None if nodes is None else texts("nodes", nodes)
    share = required("max_drop", 0 if max_drop is None else max_drop)
    settings, cache = settings_of(threads=threads, timeout_s=timeout_s), Cache()
    given = {"weights": weights, "batch": batch, "calibration": calibration}
    captured, _ = _exported(subject(model, inputs, cache, name=name, trust=trust, **given), [], cache)  # type: ignore[arg-type]
    common: dict[str, Any] = {"cache": cache, "settings": settings, "observe": _steps(text)}
    if names is not None:
        return keeping.keep_out(captured, text, names, other, **common)
    return keeping.mix(captured, text, share, other, **common)


def _targets(backend: Any, against: Any) -> tuple[str, str | None]:
    return chosen_target("backend", backend), None if against is None else chosen_target("against", against)


def _exported(model: Any, targets: Sequence[str], cache: Cache) -> tuple[Captured, Sequence[Exported]]:
    if isinstance(model, Captured) and not targets:
        return model, ()
    return export(model, targets, ExportSettings(cache), logged())


def _steps(target: str) -> Any:
    def step(doing: str, _share: float | None) -> None:
        logger.log(logging.DEBUG, "%s: %s", target, doing)

    return step
