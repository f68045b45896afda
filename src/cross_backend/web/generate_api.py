"""API of generating: a prompt goes in, server-sent events come out while the tokens do."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Generator, Iterator
from typing import TYPE_CHECKING

from anyio import to_thread
from starlette.responses import StreamingResponse

from cross_backend.errors import UsageError
from cross_backend.web.api import state_of
from cross_backend.web.benches import MOST_OPEN
from cross_backend.web.endpoints import TEXT, WHOLE, Endpoint, Parameter, rows
from cross_backend.web.generating import Event, generate
from cross_backend.web.state import State

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

MOST_DIGITS = 6


async def continue_text(request: Request) -> Response:
    """Continue a prompt on one or several artifacts of a model."""
    query, state = request.query_params, state_of(request)
    keys, new = query.getlist("artifact"), query.get("new")
    if not 1 <= len(keys) <= MOST_OPEN:
        raise UsageError(f"the address lacks artifact=…, 1 to {MOST_OPEN} times; GET /api/models lists them.")
    if new is not None and not (new.isascii() and new.isdecimal() and len(new) <= MOST_DIGITS and int(new)):
        raise UsageError(f"new={new[:20]!r} is no number of tokens.")
    try:
        prompt = (await request.body()).decode()
    except UnicodeDecodeError:
        raise UsageError("the prompt is no text in UTF-8.") from None
    if not prompt.strip():
        raise UsageError("the prompt is empty. Write the text that is to be continued.")
    choices = [state.catalogue.choice(key) for key in dict.fromkeys(keys)]
    names = {choice.workload for choice in choices}
    if len(names) != 1:
        raise UsageError("the artifacts must all be of one model.")
    model = state.catalogue.models()[names.pop()]
    events = generate(state, model, choices, prompt, None if new is None else int(new))
    return StreamingResponse(_sent(state, events), media_type="text/event-stream")


async def _sent(state: State, events: Iterator[Event]) -> AsyncIterator[str]:
    """Yield events as text until the last one, or until nobody reads them any longer."""
    async with state.playing:
        try:
            while (event := await to_thread.run_sync(next, events, None)) is not None:
                yield f"event: {event.name}\ndata: {json.dumps(event.facts)}\n\n"
        finally:
            assert isinstance(events, Generator), "it has a turn to hand back"
            events.close()


ENDPOINTS = (
    Endpoint(
        "POST",
        "/api/generate",
        "Continue a text, as server-sent events",
        continue_text,
        TEXT,
        (
            Parameter("artifact", "query", {**rows(TEXT), "minItems": 1, "maxItems": MOST_OPEN}),
            Parameter("new", "query", {**WHOLE, "minimum": 1, "description": "most tokens"}, required=False),
        ),
        {"type": "string", "description": "the prompt; token ids where the model has no tokenizer"},
        takes_type="text/plain",
        media_type="text/event-stream",
    ),
)
