"""Benches: the worker that a target is opened in."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

from cross_backend.bench.bench import Bench, Opened, Subject
from cross_backend.bench.judging import JudgeOn
from cross_backend.cache import Cache
from cross_backend.comparison.settings import Settings
from cross_backend.comparison.site import HERE, Site
from cross_backend.errors import CrossBackendError
from cross_backend.machine import Machine
from cross_backend.program.kept_probes import kept_probes
from cross_backend.registry import Resolved


def open_bench(
    payload: Path, target: str, settings: Settings, cache: Cache, stack: ExitStack, site: Site = HERE
) -> tuple[Bench, Opened]:
    """Start a bench and open an artifact on it.

    Raises:
        LoadError, ArtifactError, WorkerError: it cannot be opened; the bench is gone.
    """
    bench = site.start_bench(target, settings, cache, stack)
    return bench, open_on(bench, payload, target, settings)


def open_on(bench: Bench, payload: Path, target: str, settings: Settings) -> Opened:
    """Open an artifact on a bench, which is closed where that fails; return how long it took.

    Raises:
        LoadError, ArtifactError, WorkerError: it cannot be opened; the bench is gone.
    """
    try:
        return bench.open(Subject(payload, target, settings.threads))
    except CrossBackendError:
        bench.close()
        raise


def wrong_on_kept(bench: Bench, program: str, precision: str, cache: Cache) -> str:
    """Return why an open artifact is wrong on an input that an earlier search kept; empty where it is right on all.

    Args:
        bench: the artifact is right on its sample.
        program: digest of the captured program.
        precision: of the target.
        cache: where the search kept its inputs.

    Raises:
        RunError, WorkerError: it fails on one.
    """
    kept = kept_probes(cache, program)
    return "" if kept is None else bench.take(JudgeOn(kept, precision))


def too_few_processors(resolved: Resolved, threads: int, machine: Machine) -> str | None:
    """Return why a target with so many threads would tell nothing here; None where it may use as many processors."""
    wanted = int(resolved.options.get("threads") or threads)
    if wanted <= machine.usable_cpus:
        return None
    return f"{wanted} threads are asked for; this process may use {machine.usable_cpus} processor(s)"
