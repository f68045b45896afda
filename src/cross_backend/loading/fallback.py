"""Fallback: open the first of several artifacts that works here, and keep every reason (docs/selection.md).

preflight ──▶ remembered verdict? ──▶ first time: open and verify in a child, time-boxed ──▶ open here
"""

from __future__ import annotations

import logging
from contextlib import ExitStack
from pathlib import Path

from cross_backend.artifact import Artifact
from cross_backend.backend import Rejected, Session
from cross_backend.cache import Cache
from cross_backend.comparison.benches import open_bench
from cross_backend.comparison.settings import Settings
from cross_backend.errors import CrossBackendError, LoadError, UsageError, WorkerError, failing_as, one_line
from cross_backend.loading.load import load, resolve_artifact
from cross_backend.loading.order import in_order
from cross_backend.lowering.lower import versions
from cross_backend.registry import Resolved, check_runs
from cross_backend.remembered import Memory, Remembered, Verdict
from cross_backend.verify.compare import precision_of

logger = logging.getLogger(__name__)
FIRST_LOAD_S = 120.0
"""Longest answer of the child that tries an artifact for the first time."""


def load_best(
    path: Path | str,
    platform: str | None = None,
    model: str | None = None,
    *,
    timeout_s: float = FIRST_LOAD_S,
    retry: bool = False,
    trust: bool = False,
) -> Session:
    """Open the first artifact that works here, in fallback order.

    Example:
        >>> with xb.load_best("bundles/mobilenet_v3_small") as session:  # doctest: +SKIP
        ...     print(session.target, [f"{one.target}: {one.reason}" for one in session.rejected])

    An artifact is first opened in a child process and verified on its sample; what came of it is remembered for this
    machine, these versions and these files. One that failed, crashed or hung is tried again only when nothing else
    works; one that gave wrong outputs never. The session is open when it comes back; use it in ``with``, which closes
    it. Its ``rejected`` says why the candidates before it were passed over, its ``why`` which evidence ordered them.

    Args:
        path: a bundle (folder or zip file), or a folder that ``cross-backend export`` wrote.
        platform: whose order; this platform's where None.
        model: workload name, needed where a folder holds several.
        timeout_s: longest answer of the child.
        retry: forget what failed or crashed here before.
        trust: open artifacts that hold code although they were not made on this machine; remembered by digest.

    Raises:
        UsageError: several workloads and no ``model``, an unknown platform, or no time at all.
        ArtifactError: no bundle, or a folder without artifacts.
        LoadError: nothing works; the text holds every reason.
    """
    if not timeout_s > 0:
        raise UsageError(f"timeout_s must be above 0, not {timeout_s}.")
    cache = Cache()
    candidates = in_order(Path(path), platform, model, cache)
    rejected = candidates.rejected
    first: list[tuple[Artifact, Rejected | None]] = [(artifact, None) for artifact in candidates.artifacts]
    demoted: list[tuple[Artifact, Rejected | None]] = []
    for again, tried in ((retry, first), (True, demoted)):
        for artifact, demotion in tried:
            try:
                session = _open(artifact, cache, timeout_s, again=again, trust=trust)
            except _DemotedError as error:
                row = Rejected(artifact.target, str(error))
                rejected.append(row)
                demoted.append((artifact, row))
                logger.info("%s is tried last: %s", artifact.target, error)
            except (CrossBackendError, OSError) as error:
                rejected.append(Rejected(artifact.target, one_line(error)))
                logger.warning("%s passed over: %s", artifact.target, one_line(error))
            else:
                session.why = candidates.why(artifact)
                session.rejected = tuple(row for row in rejected if row is not demotion)
                return session
    reasons = "; ".join(f"{row.target}: {row.reason}" for row in rejected)
    raise LoadError(f"nothing in {path} works here. {reasons}")


class _DemotedError(CrossBackendError):
    """It failed here before, and is tried again only when nothing else works."""


def _open(artifact: Artifact, cache: Cache, timeout_s: float, *, again: bool, trust: bool) -> Session:
    """Open an artifact in this process, after a child has shown that it works.

    Raises:
        _DemotedError: it failed or crashed before, and this is not the second round.
        CrossBackendError: why not.
    """
    resolved, memory = check_runs(resolve_artifact(artifact)), Memory(cache)
    session = load(artifact, trust=trust)  # checks digests, opens nothing
    identity, runtime = f"{artifact.sha256} {artifact.sample_sha256} {artifact.target}", versions(resolved)
    known = memory.verdict(identity, runtime)
    if known is not None and known.verdict is Verdict.WRONG:
        raise LoadError(f"its outputs were wrong here before: {known.reason}")
    if known is not None and known.verdict is not Verdict.RIGHT and not again:
        raise _DemotedError(
            f"it {known.verdict} here before ({known.reason}), so it is tried last; retry=True forgets that"
        )
    if known is None or known.verdict is not Verdict.RIGHT:
        found, failure = _try(artifact, resolved, cache, timeout_s)
        memory.keep_verdict(identity, runtime, found)
        if failure is not None:
            raise failure
    if artifact.sample is None:
        logger.warning("%s is opened unverified: it has no sample to compare with", artifact.target)
    with failing_as(LoadError, f"{artifact.target} cannot load {artifact.payload}"):
        return session.__enter__()


def _try(
    artifact: Artifact, resolved: Resolved, cache: Cache, timeout_s: float
) -> tuple[Remembered, CrossBackendError | None]:
    """Open and verify in a child; return what to remember, and why it is not to be opened."""
    found = Remembered(Verdict.RIGHT)
    failure: CrossBackendError | None = None
    with ExitStack() as stack:
        try:
            settings = Settings(timeout_s=timeout_s)
            bench, _ = open_bench(artifact.payload_path, artifact.target, settings, cache, stack)
            if artifact.sample is not None:
                comparison = bench.verify(precision_of(resolved.options)).comparison
                if not comparison.verdict:
                    found = Remembered(Verdict.WRONG, str(comparison.reason))
                    failure = LoadError(f"its outputs are wrong: {comparison.reason}")
        except CrossBackendError as error:
            verdict = Verdict.CRASHED if isinstance(error, WorkerError) else Verdict.FAILED
            found, failure = Remembered(verdict, one_line(error)), error
    return found, failure
