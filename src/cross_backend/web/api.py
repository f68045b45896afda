"""API: what our own pages and anybody's programs ask: models, runs, studies, events; each address once, as a table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, cast

from anyio import to_thread
from starlette.datastructures import UploadFile
from starlette.responses import FileResponse, JSONResponse, PlainTextResponse, StreamingResponse

from cross_backend._version import __version__
from cross_backend.errors import CrossBackendError, UsageError
from cross_backend.records import PanelKey
from cross_backend.report.document import document
from cross_backend.study.diff import MARGIN, diff
from cross_backend.web import endpoints, playing, visitor
from cross_backend.web.catalogue import Choice, Playable
from cross_backend.web.endpoints import TEXT, WHOLE, Endpoint, Parameter, record, rows
from cross_backend.web.guard import MAX_BODY_BYTES
from cross_backend.web.playing import MOST_SIDES, play
from cross_backend.web.shelf import NotFoundError
from cross_backend.web.state import State
from cross_backend.web.visitor import taken_back

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

MAX_NUMBER = 1 << 31
GONE = 499
"""Status of an answer that nobody reads, as other servers have it."""


def state_of(request: Request) -> State:
    """Return what the server's handlers share."""
    return cast("State", request.app.state.shared)


async def models(request: Request) -> Response:
    """List the models, and each one's backends with what stops them."""
    found = await to_thread.run_sync(state_of(request).catalogue.models)
    return JSONResponse({"models": [_model(one) for one in found.values()]})


def _model(model: Playable) -> dict[str, Any]:
    kind = None if model.media is None else model.media.kind
    return {"name": model.name, "kind": kind, "backends": [_backend(choice) for choice in model.choices]}


def _backend(choice: Choice) -> dict[str, Any]:
    return {
        "artifact": choice.key,
        "target": choice.target,
        "title": choice.title,
        "reason": choice.unavailable or None,
    }


async def run(request: Request) -> Response:
    """Run one input on one or several artifacts of a model."""
    query = request.query_params
    keys, here, name = query.getlist("artifact"), query.get("visitor"), query.get("name")
    if len(keys) > MOST_SIDES or not (keys or here):
        raise UsageError(f"the address lacks artifact=…, 1 to {MOST_SIDES} times; GET /api/models lists them.")
    data = None if query.get("sample") == "true" else await request.body()
    state = state_of(request)
    choices = [state.catalogue.choice(key) for key in dict.fromkeys(keys)]
    own = state.catalogue.choice(here) if here else None
    names = {choice.workload for choice in (*choices, *([own] if own else []))}
    if len(names) != 1:
        raise UsageError("the artifacts must all be of one model.")
    model = state.catalogue.models()[names.pop()]

    def played() -> Response:
        return JSONResponse(play(state, model, choices, data, name, own))

    return await in_turn(request, played)


async def in_turn(request: Request, work: Callable[[], Response]) -> Response:
    """Do work of benches in a thread when its turn has come; not at all where nobody waits for it any longer."""
    limiter = state_of(request).playing
    has_to_wait = limiter.available_tokens < 1
    async with limiter:
        if has_to_wait and await request.is_disconnected():
            return PlainTextResponse("nobody waits for it", GONE)
        return await to_thread.run_sync(work)


async def present(request: Request) -> Response:
    """Show what the asking page's own browser gave for an input that it was handed."""
    async with request.form(max_files=1, max_fields=4, max_part_size=1 << 20) as form:
        key, name, layout, given = (form.get(one) for one in ("artifact", "ticket", "layout", "outputs"))
        if not (isinstance(key, str) and isinstance(name, str) and isinstance(layout, str)):
            raise UsageError("artifact, ticket, layout and outputs are wanted.")
        if not isinstance(given, UploadFile):
            raise UsageError("outputs must be sent as a file.")
        data = await given.read()
    state = state_of(request)
    choice, ticket = state.catalogue.choice(key), state.tickets.find(name)
    if choice.artifact is None or choice.workload != ticket.model:
        raise UsageError("the input was another model's.")
    outputs = taken_back(layout, data, choice.artifact.outputs)
    return JSONResponse(playing.present(state.catalogue.models()[ticket.model].media, ticket, outputs))


async def payload(request: Request) -> Response:
    """Return the file of a model, for the asking page's own browser to run."""
    choice = state_of(request).catalogue.choice(request.path_params["key"])
    return FileResponse(await to_thread.run_sync(visitor.file_of, choice), media_type="application/octet-stream")


async def profile(request: Request) -> Response:
    """Run an artifact's own sample with its runtime's profiler."""
    async with request.form(max_files=0, max_fields=2) as form:
        key = form.get("artifact")
    state = state_of(request)
    choice = state.catalogue.choice(key if isinstance(key, str) else "")

    def profiled() -> Response:
        timings = state.benches.profile(choice)
        total = sum(row.ms for row in timings)
        return JSONResponse({"rows": [row.to_json(total) for row in timings]})

    return await in_turn(request, profiled)


async def studies(request: Request) -> Response:
    """List the stored studies, the latest first."""
    found = await to_thread.run_sync(state_of(request).shelf.studies)
    return JSONResponse({"studies": [asdict(row) for row in found]})


async def study(request: Request) -> Response:
    """Return a study's results, as its report in JSON has them."""
    number = whole(request.path_params["study"])
    results = await to_thread.run_sync(state_of(request).shelf.results, number)
    return JSONResponse(await to_thread.run_sync(document, results))


async def study_history(request: Request) -> Response:
    """Return one target's latency in all studies of a name, with its change points."""
    number, key, target = history_asked(request)
    found = await to_thread.run_sync(state_of(request).shelf.history, number, key, target)
    return JSONResponse({"moments": [asdict(moment) for moment in found]})


async def study_diff(request: Request) -> Response:
    """Compare two studies."""
    shelf = state_of(request).shelf
    before, after = (whole(asked(request, name)) for name in ("before", "after"))
    first, second = [await to_thread.run_sync(shelf.results, number) for number in (before, after)]
    return JSONResponse((await to_thread.run_sync(diff, first, second, MARGIN)).to_json())


async def token(request: Request) -> Response:
    """Return what requests that change something must show in a header; pages of other sites cannot read it."""
    return JSONResponse({"token": state_of(request).access.page_token})


async def events(request: Request) -> Response:
    """Tell what happens to the benches, as server-sent events."""
    return StreamingResponse(state_of(request).events.listen(), media_type="text/event-stream")


async def healthz(_request: Request) -> Response:
    """Say that the server answers."""
    return JSONResponse({"status": "ok", "version": __version__})


async def metrics(request: Request) -> Response:
    """Return what was counted, for Prometheus."""
    state = state_of(request)
    text = state.counters.text({"cross_backend_open_benches": len(state.benches.open_now)})
    return PlainTextResponse(text, media_type="text/plain; version=0.0.4")


async def openapi(request: Request) -> Response:
    """Return the OpenAPI document."""
    return JSONResponse(endpoints.openapi(request.app.state.endpoints))


def asked(request: Request, name: str) -> str:
    """Return a value of the address.

    Raises:
        UsageError: it is not given.
    """
    value = request.query_params.get(name)
    if value is None:
        raise UsageError(f"the address lacks {name}=….")
    return str(value)


def whole(text: str) -> int:
    """Return a number of something that is kept.

    Raises:
        NotFoundError: it is none, so there is no such thing.
    """
    if not (text.isascii() and text.isdecimal()) or len(text) > 10 or int(text) >= MAX_NUMBER:
        raise NotFoundError(f"there is nothing of the number {text[:20]!r}.")
    return int(text)


def history_asked(request: Request) -> tuple[int, PanelKey, str]:
    """Return which study's which target is asked for."""
    number = whole(request.path_params["study"])
    batch, threads = (whole(asked(request, name)) for name in ("batch", "threads"))
    return number, PanelKey(asked(request, "workload"), batch, threads), asked(request, "target")


def status_of(error: CrossBackendError) -> int:
    """Return the status of an answer that is an error."""
    return 404 if isinstance(error, NotFoundError) else 400


_STUDY = Parameter("study", "path", WHOLE)
_OPTIONAL = {"type": ["string", "null"]}
_BACKEND = record(artifact=TEXT, target=TEXT, title=TEXT, reason=_OPTIONAL)
_RUN = record(artifact=TEXT, target=TEXT, title=TEXT, outcome=TEXT, error=_OPTIONAL)
_ROW = record(id=WHOLE, name=TEXT, started=TEXT, finished=_OPTIONAL, panels=WHOLE, launches=WHOLE, samples=WHOLE)
_INPUT = {
    "type": "string",
    "format": "binary",
    "maxLength": MAX_BODY_BYTES,
    "description": "a picture, a sound, a text, or numbers with commas between",
}
_ASKED = (
    Parameter("artifact", "query", {**rows(TEXT), "minItems": 1, "maxItems": MOST_SIDES}),
    Parameter("sample", "query", {"type": "boolean", "description": "run the model's own sample"}, required=False),
    Parameter("name", "query", {**TEXT, "description": "of the file, for messages"}, required=False),
    Parameter("visitor", "query", {**TEXT, "description": "artifact that the browser itself runs"}, required=False),
)
_GIVEN = record(artifact=TEXT, ticket=TEXT, layout=TEXT, outputs={"type": "string", "format": "binary"})
_PRESENTED = record(shown={"type": "object"}, present_ms={"type": "number"}, difference={"type": ["object", "null"]})
_ONE = {"type": "object", "properties": {"artifact": TEXT}, "required": ["artifact"]}
_NUMBER = {"type": "number"}
_TIMED = record(name=TEXT, kind=TEXT, calls=_NUMBER, ms=_NUMBER, share=_NUMBER)
_IN_QUERY = (
    Parameter("workload", "query", TEXT),
    Parameter("batch", "query", WHOLE),
    Parameter("threads", "query", WHOLE),
    Parameter("target", "query", TEXT),
)
_MOMENT = record(study=WHOLE, started=TEXT, outcome=TEXT, changed={"type": "boolean"})
_DIFFED = (Parameter("before", "query", WHOLE), Parameter("after", "query", WHOLE))
ENDPOINTS: Sequence[Endpoint] = (
    Endpoint(
        "GET",
        "/api/models",
        "Models, and their backends",
        models,
        record(models=rows(record(name=TEXT, kind=_OPTIONAL, backends=rows(_BACKEND)))),
    ),
    Endpoint(
        "POST",
        "/api/run",
        "Run one input",
        run,
        record(model=TEXT, kind=_OPTIONAL, runs=rows(_RUN)),
        _ASKED,
        _INPUT,
        takes_type="application/octet-stream",
    ),
    Endpoint("POST", "/api/present", "Show what the page's own browser gave", present, _PRESENTED, (), _GIVEN),
    Endpoint(
        "GET",
        "/api/payload/{key}",
        "The file of a model",
        payload,
        {"type": "string", "format": "binary"},
        (Parameter("key", "path", TEXT),),
        media_type="application/octet-stream",
    ),
    Endpoint("POST", "/api/profile", "What each operator takes", profile, record(rows=rows(_TIMED)), (), _ONE),
    Endpoint("GET", "/api/studies", "Stored studies", studies, record(studies=rows(_ROW))),
    Endpoint("GET", "/api/studies/{study}", "One study", study, {"type": "object"}, (_STUDY,)),
    Endpoint(
        "GET",
        "/api/studies/{study}/history",
        "One target over all studies of the name",
        study_history,
        record(moments=rows(_MOMENT)),
        (_STUDY, *_IN_QUERY),
    ),
    Endpoint("GET", "/api/diff", "What changed between two studies", study_diff, {"type": "object"}, _DIFFED),
    Endpoint("GET", "/api/token", "Token that requests that change something must show", token, record(token=TEXT)),
    Endpoint("GET", "/api/events", "What happens to benches", events, TEXT, media_type="text/event-stream"),
    Endpoint("GET", "/healthz", "Whether the server answers", healthz, record(status=TEXT, version=TEXT)),
    Endpoint("GET", "/metrics", "Counters, for Prometheus", metrics, TEXT, media_type="text/plain; version=0.0.4"),
    Endpoint("GET", "/openapi.json", "This document", openapi, {"type": "object"}),
)
