"""One panel of generation: open and verify every target, then whole sequences in shuffled rounds."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path

from cross_backend.bench.bench import Bench
from cross_backend.cache import Cache
from cross_backend.comparison.benches import too_few_processors
from cross_backend.comparison.contestant import Contestant, described
from cross_backend.comparison.opening import prove, start
from cross_backend.comparison.settings import Settings
from cross_backend.comparison.site import HERE
from cross_backend.errors import CrossBackendError, RunError, UsageError, one_line
from cross_backend.exporting.export import Exported
from cross_backend.generation.encoding import Encode, Encoded, Encoder, write_reference
from cross_backend.generation.energy import Meter
from cross_backend.generation.rows import GenerationPanel, GenerationRow, Length
from cross_backend.generation.sequence import Generate, Generated, check_generates
from cross_backend.generation.teaching import JudgeSequence, Teach
from cross_backend.measurement import Measurement
from cross_backend.program.captured import Captured
from cross_backend.records import Outcome
from cross_backend.verify.compare import precision_of
from cross_backend.worker.process import Worker

SEQUENCES = 7
"""Timed sequences of each target and length, after one that warms up."""

Told = Callable[[str, int, int], None]
"""Called with (what is being done, steps done, steps in all)."""


@dataclass
class TargetTexts:
    """A target on its way."""

    contestant: Contestant
    sequences: list[Generated] = field(default_factory=list)
    """Those that were timed, of the length that is measured now."""
    verified: int = 0
    """Calls of the reference's sequence whose outputs are right."""
    meter: Meter | None = None
    joules: list[float] = field(default_factory=list)
    """Of each timed sequence; empty where nothing counts them."""
    encoder: Contestant | None = None
    """The same target's encoder, in a process of its own; None where the model has none."""
    encoded: list[Encoded] = field(default_factory=list)
    """Its calls, one a timed sequence."""


def run_generation(
    captured: Captured,
    rows: Sequence[Exported],
    lengths: Sequence[Length],
    settings: Settings,
    cache: Cache,
    context: int | None,
    sequences: int = SEQUENCES,
    told: Told = lambda *_: None,
    encoder: Encoder | None = None,
) -> list[GenerationPanel]:
    """Measure all targets for each length in turn; a target that fails is told with its reason.

    Args:
        captured: the model.
        rows: what was exported, one a target.
        lengths: of prompt and new tokens.
        settings: threads, time-outs, seed.
        cache: where the workers' logs go.
        context: positions of the model's caches; None where that is not known.
        sequences: timed ones of each target and length.
        told: told of every step.
        encoder: of the model, exported to the same targets; None where it has none.

    Raises:
        UsageError: the model does not generate, or a length is longer than its caches.
    """
    found = sequences_of(captured, rows, lengths, settings, cache, context, sequences, told, encoder)
    name = None if encoder is None else encoder.captured.workload
    return [GenerationPanel(captured.workload, length, tuple(map(_row, runs)), name) for length, runs in found]


def sequences_of(
    captured: Captured,
    rows: Sequence[Exported],
    lengths: Sequence[Length],
    settings: Settings,
    cache: Cache,
    context: int | None,
    sequences: int,
    told: Told = lambda *_: None,
    encoder: Encoder | None = None,
) -> Iterator[tuple[Length, list[TargetTexts]]]:
    """Yield each length with what all targets generated of it; see :func:`run_generation`."""
    feeds = () if encoder is None else encoder.captured.outputs
    vocabulary = check_generates(captured.workload, captured.inputs, captured.outputs, captured.state, feeds)
    for length in lengths:
        if context is not None and length.prompt + length.new > context:
            raise UsageError(
                f"--generate {length} needs {length.prompt + length.new} positions, and the caches of "
                f"{captured.workload} hold {context}. Say a shorter one, or a larger context: MODEL?context=…"
            )
    runs = _begin(captured, rows, encoder)
    steps = len(runs) + len(lengths) * (sequences + 2) * len(runs)
    done = 0
    with ExitStack() as stack:
        for run in runs:
            told(f"open and verify {run.contestant.result.target}", done, steps)
            done += 1
            _open_both(run, settings, cache, stack)
        folder = stack.enter_context(cache.scratch())
        memory = None if encoder is None else write_reference(encoder.captured, folder / "memory.npz")
        reference = stack.enter_context(Worker(cache.log("reference")))
        for length in lengths:
            order, rng = list(runs), random.Random(settings.seed)  # noqa: S311  an order and a prompt, no secret
            prompt = [rng.randrange(vocabulary) for _ in range(length.prompt)]
            question = Generate(prompt, length.new, None if memory is None else folder / "own_memory.npz")
            calls = folder / f"{length.prompt}_{length.new}.npz"
            told(f"{length} on the reference", done, steps)
            reference.ask(Teach(captured.folder, prompt, length.new, calls, memory), settings.timeout_s)
            for run in runs:
                run.sequences.clear()
                run.joules.clear()
                run.encoded.clear()
                told(f"verify {length} on {run.contestant.result.target}", done, steps)
                done += 1
                _verify(run, calls, memory)
            for turn in range(sequences + 1):
                rng.shuffle(order)
                for run in order:
                    told(f"{length} on {run.contestant.result.target}", done, steps)
                    done += 1
                    _generate(run, question, is_warm_up=turn == 0)
            yield length, runs


def _begin(captured: Captured, rows: Sequence[Exported], encoder: Encoder | None) -> list[TargetTexts]:
    """Return the targets with what is known without opening them."""
    runs = [TargetTexts(Contestant(row, described(captured.workload, row, rows[:i]))) for i, row in enumerate(rows)]
    if encoder is not None:
        for run, row in zip(runs, encoder.rows, strict=True):
            run.encoder = Contestant(row, described(encoder.captured.workload, row))
    return runs


def _open_both(run: TargetTexts, settings: Settings, cache: Cache, stack: ExitStack) -> None:
    """Open and verify a target and, before it, its encoder; where that fails, so does the target."""
    if run.encoder is not None and run.contestant.result.outcome is Outcome.OK:
        _open(run.encoder, settings, cache, stack)
        _fail_with_encoder(run)
    _open(run.contestant, settings, cache, stack)


def _fail_with_encoder(run: TargetTexts) -> None:
    if run.encoder is None or run.encoder.result.outcome is Outcome.OK:
        return
    found = run.encoder.result
    reason = f"its encoder {found.workload}: {found.reason or found.outcome}"
    run.contestant.result = replace(run.contestant.result, outcome=found.outcome, reason=reason)


def _open(contestant: Contestant, settings: Settings, cache: Cache, stack: ExitStack) -> None:
    resolved = contestant.exported.resolved
    if resolved is None or contestant.result.outcome is not Outcome.OK:
        return
    why = HERE.missing(resolved) or too_few_processors(resolved, settings.threads, HERE.machine)
    if why is not None:
        contestant.result = replace(contestant.result, outcome=Outcome.UNAVAILABLE, reason=why)
        return
    start(contestant, settings, cache, stack)
    prove(contestant, settings, cache)


def _verify(run: TargetTexts, calls: Path, memory: Path | None) -> None:
    """Compare every call of a sequence with the reference's, on the reference's tokens."""
    bench, resolved = run.contestant.bench, run.contestant.exported.resolved
    if bench is None or resolved is None or run.contestant.result.outcome is not Outcome.OK:
        return
    try:
        found = bench.take(JudgeSequence(calls, precision_of(resolved.options), memory))
    except CrossBackendError as error:
        run.contestant.fail(error, Outcome.RUN_FAIL)
        return
    run.verified = found.calls
    if found.reason is not None:
        run.contestant.result = replace(run.contestant.result, outcome=Outcome.MISMATCH, reason=found.reason)


def _generate(run: TargetTexts, question: Generate, *, is_warm_up: bool) -> None:
    bench: Bench | None = run.contestant.bench
    if bench is None or run.contestant.result.outcome is not Outcome.OK:
        return
    run.meter = run.meter or Meter(bench.pid)
    try:
        (encoded, found), joules = run.meter.over(lambda: (_encode(run, question), bench.take(question)))
    except CrossBackendError as error:
        run.contestant.fail(error, Outcome.RUN_FAIL)
        run.sequences.clear()
        run.encoded.clear()
        return
    if not is_warm_up:
        run.sequences.append(found)
        run.encoded += [] if encoded is None else [encoded]
        run.joules += [] if joules is None else [joules / len(found.tokens)]


def _encode(run: TargetTexts, question: Generate) -> Encoded | None:
    """Run the target's own encoder, which leaves the memory for the sequence; None where there is none."""
    if question.memory is None or run.encoder is None or run.encoder.bench is None:
        return None
    try:
        found: Encoded = run.encoder.bench.take(Encode(question.memory))
    except CrossBackendError as error:
        raise RunError(f"its encoder {run.encoder.result.workload} failed: {one_line(error)}") from error
    return found


def _row(run: TargetTexts) -> GenerationRow:
    result = run.contestant.result
    row = GenerationRow(result.target, result.title, result.outcome.name, result.reason, verified=run.verified)
    if not run.sequences or result.outcome is not Outcome.OK:
        return row
    last = run.sequences[-1]
    return replace(
        row,
        prefill=samples_of(run, "prefill", "generation.prefill"),
        encoder=samples_of(run, "encoder", "generation.encoder") if run.encoded else None,
        decode=samples_of(run, "decode", "generation.decode"),
        energy=Measurement("energy.per_token", "J", tuple((one,) for one in run.joules)) if run.joules else None,
        energy_note=run.meter.note if run.meter else "",
        whole_prompt=last.whole_prompt,
        tokens=tuple(last.tokens),
        state_bytes=last.state_bytes,
        moved_bytes=last.moved_bytes,
        peak_bytes=max(one.peak_bytes for one in run.sequences),
        encoder_peak_bytes=max((one.peak_bytes for one in run.encoded), default=None),
    )


def samples_of(run: TargetTexts, part: str, metric: str) -> Measurement:
    """Return the latencies of ``encoder``, ``prefill`` (with the encoder) or ``decode``, ns: a round a sequence."""
    if part == "decode":
        return Measurement(metric, "ns", tuple(tuple(map(float, one.decode_ns)) for one in run.sequences))
    encoder = [one.ns for one in run.encoded] or [0] * len(run.sequences)
    prompt = [one.prefill_ns if part == "prefill" else 0 for one in run.sequences]
    return Measurement(metric, "ns", tuple((float(a + b),) for a, b in zip(encoder, prompt, strict=True)))
