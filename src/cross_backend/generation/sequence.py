"""One sequence on one target: reset, prompt, then token after token, each the likeliest (greedy decoding)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cross_backend.bench.reading import Reading
from cross_backend.errors import RunError, UsageError
from cross_backend.generation.encoding import kinds, read_memory
from cross_backend.measure import memory
from cross_backend.measure.clock import timed
from cross_backend.tensors import TensorSpec, to_numpy

if TYPE_CHECKING:
    from cross_backend.backend import Session
    from cross_backend.bench.open_artifact import OpenArtifact


@dataclass(frozen=True)
class Generated:
    """What one sequence took and gave."""

    prefill_ns: int
    decode_ns: list[int]
    """Of each token after the first."""
    tokens: list[int]
    whole_prompt: bool
    state_bytes: int
    moved_bytes: int
    peak_bytes: int


@dataclass(frozen=True)
class Generate(Reading[Generated]):
    """Generate so many tokens after a prompt, from the initial state."""

    prompt: list[int]
    new: int
    memory: Path | None = None
    """What the encoder left; None where the model has none."""

    def read(self, artifact: OpenArtifact) -> Generated:
        """Return the durations of the calls alone: binding inputs and choosing the token are in none of them."""
        session, source = artifact.session, read_memory(self.memory)
        session.reset()
        logits, prefill_ns = fed(session, self.prompt, 0, source)
        tokens, decode_ns = [int(logits.argmax())], []
        for place in range(len(self.prompt), len(self.prompt) + self.new - 1):
            logits, ns = fed(session, tokens[-1:], place, source)
            decode_ns.append(ns)
            tokens.append(int(logits.argmax()))
        state = session.state
        session.reset()
        size, moved = state.size_bytes, state.moved_bytes
        return Generated(
            prefill_ns, decode_ns, tokens, takes_whole(session.inputs), size, moved, memory.peak_rss_bytes()
        )


def takes_whole(inputs: Sequence[TensorSpec]) -> bool:
    """Whether a call takes any number of tokens; else it takes one."""
    return isinstance(inputs[0].shape[1], str)


def parts_of(inputs: Sequence[TensorSpec], tokens: Sequence[int], start: int) -> list[tuple[Any, Any]]:
    """Return the inputs of the calls that take these tokens: ids ``(1, n)`` and the position ``(1,)`` of the first."""
    import numpy as np

    ids, each = np.array([tokens], np.int64), len(tokens) if takes_whole(inputs) else 1
    return [(ids[:, at : at + each], np.array([start + at], np.int64)) for at in range(0, len(tokens), each)]


def fed(session: Session, tokens: Sequence[int], start: int, source: Sequence[Any] = ()) -> tuple[Any, int]:
    """Feed tokens at a position.

    Args:
        session: of the decoder.
        tokens: to feed.
        start: position of the first.
        source: what the encoder left, the further inputs of every call.

    Returns:
        The logits ``(1, ids)`` of the next token, an array, and the duration of the calls alone in ns.

    Raises:
        RunError: a call fails, or the logits are not finite.
    """
    steps = [_step(session, ids, place, source) for ids, place in parts_of(session.inputs, tokens, start)]
    return steps[-1][0], sum(ns for _, ns in steps)


def _step(session: Session, ids: Any, place: Any, source: Sequence[Any]) -> tuple[Any, int]:
    """Return the logits of the next token as an array, and the duration of the call in ns."""
    import numpy as np

    outputs, ns = timed(session.bind((ids, place, *source)))
    logits = to_numpy(outputs[0])
    if not np.isfinite(logits).all():
        raise RunError(f"the logits at position {int(place[0])} are not finite")
    return logits, ns


def check_generates(
    name: str,
    inputs: Sequence[TensorSpec],
    outputs: Sequence[TensorSpec],
    state: Sequence[TensorSpec],
    memory: Sequence[TensorSpec] = (),
) -> int:
    """Refuse a model that cannot be generated with; return the size of its vocabulary.

    Args:
        name: of the model.
        inputs: of it.
        outputs: of it.
        state: its caches.
        memory: outputs of its encoder, which it takes beside the tokens.

    Raises:
        UsageError: names what it lacks.
    """
    takes = [(spec.dtype, len(spec.shape)) for spec in inputs[:2]] == [("int64", 2), ("int64", 1)]
    if not takes or not outputs or len(outputs[0].shape) != 2 or not isinstance(outputs[0].shape[1], int):
        raise UsageError(
            f"{name} does not generate: --generate wants a model of token ids int64[1, n] and the position int64[1] of "
            "the first, which returns the logits [1, ids] of the next token. Try llama, qwen or gpt2."
        )
    if not state:
        raise UsageError(f"{name} has no state: its keys and values must be buffers that a call changes.")
    further = inputs[2:]
    if further and not memory:
        raise UsageError(
            f"{name} cannot generate alone: every call takes the outputs of an encoder, "
            f"{' and '.join(f'{spec.name} {spec}' for spec in further)}. Use compare --generate with a built-in "
            "decoder, which runs the encoder, too; or call the sessions of both yourself (docs/generation.md)."
        )
    if kinds(further) != kinds(memory):
        raise UsageError(f"{name} does not take what its encoder returns: {', '.join(str(spec) for spec in memory)}.")
    return outputs[0].shape[1]
