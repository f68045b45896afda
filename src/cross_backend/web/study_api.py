"""Study API: begin a study from a page, and ask how far it is; its steps come as events named ``study``.

The progress of studies that commands run comes as events named ``running``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

from anyio import to_thread
from starlette.responses import JSONResponse

from cross_backend.errors import UsageError
from cross_backend.web.api import state_of
from cross_backend.web.endpoints import TEXT, WHOLE, Endpoint, record, rows
from cross_backend.web.following import told
from cross_backend.web.studying import MOST_MODELS, MOST_TARGETS

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

SECONDS, LAUNCHES = "2", "3"
"""Where nothing else is asked for."""


async def begin_study(request: Request) -> Response:
    """Begin a study of built-in models in a process of its own."""
    async with request.form(max_files=0, max_fields=MOST_MODELS + MOST_TARGETS + 2) as form:
        models, targets = ([str(one) for one in form.getlist(name)] for name in ("model", "target"))
        given = [str(form.get("seconds") or SECONDS), str(form.get("launches") or LAUNCHES)]
    try:
        seconds, launches = float(given[0]), int(given[1])
    except ValueError as error:
        raise UsageError("seconds and launches must be numbers.") from error
    if state_of(request).localizing.is_running:
        raise UsageError("an operator is searched now; begin when that is finished.")
    begun = await to_thread.run_sync(state_of(request).studying.begin, models, targets, seconds, launches)
    return JSONResponse(asdict(begun))


async def running_study(request: Request) -> Response:
    """Say how far the study is that was begun last."""
    return JSONResponse(asdict(state_of(request).studying.progress))


async def progress(request: Request) -> Response:
    """Say how far the studies are that commands on this machine run."""
    return JSONResponse(told(await to_thread.run_sync(state_of(request).following.now)))


_LINE = record(key=TEXT, text=TEXT, share={"type": ["number", "null"]}, left=TEXT)
_RUNNING = record(study=TEXT, process=WHOLE, lines=rows(_LINE), notes=rows(TEXT))
_STATE = record(state=TEXT, share={"type": "number"}, text=TEXT, study={"type": ["integer", "null"]})
_ASKED = {
    "type": "object",
    "properties": {
        "model": {**rows(TEXT), "minItems": 1, "maxItems": MOST_MODELS},
        "target": {**rows(TEXT), "minItems": 1, "maxItems": MOST_TARGETS},
        "seconds": {"type": "number", "description": "of timed calls of each target"},
        "launches": WHOLE,
    },
    "required": ["model", "target"],
}
ENDPOINTS: Sequence[Endpoint] = (
    Endpoint("POST", "/api/studies", "Begin a study", begin_study, _STATE, (), _ASKED),
    Endpoint("GET", "/api/progress", "How far the studies of commands are", progress, record(studies=rows(_RUNNING))),
    Endpoint("GET", "/api/running", "How far the study is that was begun last", running_study, _STATE),
)
