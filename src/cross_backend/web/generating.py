"""Generating: a prompt is continued on one or several backends, which take turns token by token, as events."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from cross_backend.errors import CrossBackendError, UsageError, WorkerError, one_line
from cross_backend.generation.continuing import NextToken, continued, room_for
from cross_backend.web.benches import Held
from cross_backend.web.catalogue import Choice, Playable
from cross_backend.web.state import State
from cross_backend.workloads.media import PromptMedia
from cross_backend.workloads.media.prompt import Pieces

MOST_NEW = 512
"""Tokens of an answer: everybody else waits for their turn meanwhile."""


@dataclass(frozen=True)
class Event:
    """One server-sent event."""

    name: str
    """``begin``, ``token`` and ``end`` of a backend; ``done`` of all."""
    facts: dict[str, Any]


@dataclass
class _Text:
    """A backend's text on its way."""

    choice: Choice
    held: Held
    tokens: Iterator[NextToken]
    pieces: Pieces
    taken: list[NextToken] = field(default_factory=list)


def generate(
    state: State, model: Playable, choices: Sequence[Choice], prompt: str, asked: int | None
) -> Iterator[Event]:
    """Check what is asked for, and return the events; closing them ends it.

    Args:
        state: the server's.
        model: whose prompt it is.
        choices: of that model.
        prompt: the text.
        asked: most tokens after it; None for as many as is usual.

    Raises:
        UsageError: the model does not generate, or the prompt does not fit.
    """
    media = model.media
    if not isinstance(media, PromptMedia):
        raise UsageError(f"{model.name} does not generate; POST /api/run runs it.")
    ids = media.encode(prompt)
    new = min(room_for(media, ids, asked), MOST_NEW)
    return _events(state, media, choices, ids, new)


def _events(
    state: State, media: PromptMedia, choices: Sequence[Choice], ids: Sequence[int], new: int
) -> Iterator[Event]:
    with state.benches.holding() as hold:
        texts = []
        for choice in choices:
            try:
                held = hold(choice)
            except CrossBackendError as error:
                yield _failed(state, choice, error)
                continue
            pieces = media.pieces()
            for index in ids:
                pieces.take(index)
            texts.append(_Text(choice, held, continued(held, ids, new, media.end), pieces))
            proof = asdict(held.proof)
            yield Event("begin", {"artifact": choice.key, "proof": proof, "prompt_tokens": len(ids), "new": new})
        while texts:
            for text in list(texts):
                event = _next(state, media, text)
                if event.name == "end":
                    texts.remove(text)
                yield event
    yield Event("done", {"caveats": list(media.caveats())})


def _next(state: State, media: PromptMedia, text: _Text) -> Event:
    """Return a backend's next token, or its end."""
    key = text.choice.key
    try:
        token = next(text.tokens, None)
        if token is None:
            stopped = "end" if text.taken[-1].index == media.end else "length"
            state.counters.count("cross_backend_runs_total", target=text.choice.target, outcome="OK")
            memory = text.held.rss_bytes()
            return Event(
                "end", {"artifact": key, "outcome": "OK", "error": None, "stopped": stopped, "memory_bytes": memory}
            )
        text.taken.append(token)
        piece = "" if token.index == media.end else text.pieces.take(token.index)
    except CrossBackendError as error:
        return _failed(state, text.choice, error)
    return Event("token", {"artifact": key, "text": piece, "index": token.index, "ms": token.ns / 1e6})


def _failed(state: State, choice: Choice, error: CrossBackendError) -> Event:
    outcome = "CRASH" if isinstance(error, WorkerError) else "FAIL"
    state.counters.count("cross_backend_runs_total", target=choice.target, outcome=outcome)
    facts = {"artifact": choice.key, "outcome": outcome, "error": one_line(error, 500), "stopped": None}
    return Event("end", {**facts, "memory_bytes": None})
