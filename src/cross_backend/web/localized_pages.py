"""Localized pages: what a search for a wrong operator found, of an artifact or a study's target; its reproducer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING
from urllib.parse import urlencode

from anyio import to_thread
from starlette.responses import JSONResponse, PlainTextResponse
from starlette.routing import Route

from cross_backend.errors import UsageError
from cross_backend.localization.found import ESTIMATED, Culprit, Localized
from cross_backend.localization.kept import KeptLocalized
from cross_backend.report.localized import numbers_text
from cross_backend.study.diff import by_key
from cross_backend.web.api import history_asked, state_of
from cross_backend.web.catalogue import Choice
from cross_backend.web.endpoints import TEXT, Endpoint, record
from cross_backend.web.erring import erring
from cross_backend.web.localizing import REPRODUCER, SEARCH
from cross_backend.web.pages import opened_runs, page
from cross_backend.web.shelf import NotFoundError

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

HEADS = {
    Culprit.OPERATOR: "Wrong operator",
    Culprit.GROUP: "Wrong group of operators",
    Culprit.UNSURE: "Where the outputs part",
    Culprit.NOTHING: "No difference",
}
SHOWN_LAYERS = 32
"""Operators of a quantised program in the table; the JSON has all."""


async def begin_localizing(request: Request) -> Response:
    """Begin to look for the operator that an artifact's backend computes wrongly, in a process of its own."""
    return await _begun(request, SEARCH)


async def begin_reproducer(request: Request) -> Response:
    """Begin to write a reproducer of what was found last of an artifact, in a process of its own."""
    return await _begun(request, REPRODUCER)


async def _begun(request: Request, kind: str) -> Response:
    async with request.form(max_files=0, max_fields=2) as form:
        key = form.get("artifact")
    state = state_of(request)
    choice = await to_thread.run_sync(state.catalogue.choice, key if isinstance(key, str) else "")
    if state.studying.is_running:
        raise UsageError("a study is measured now; begin when it is finished.")
    return JSONResponse(asdict(await to_thread.run_sync(state.localizing.begin, choice, kind)))


async def running_localizing(request: Request) -> Response:
    """Say how far the search or reproducer is that was begun last."""
    return JSONResponse(asdict(state_of(request).localizing.progress))


async def of_artifact(request: Request) -> Response:
    """Show what was found of an artifact."""
    choice, kept = await _kept(request)
    return await _page(request, kept.found, choice.title, kept.when, choice)


async def of_artifact_json(request: Request) -> Response:
    """Return what was found of an artifact, as ``localize --json`` prints it."""
    choice, kept = await _kept(request)
    headers = {"content-disposition": f'attachment; filename="{choice.key}-localized.json"'}
    return JSONResponse(kept.found.to_json(), headers=headers)


async def _kept(request: Request) -> tuple[Choice, KeptLocalized]:
    state = state_of(request)
    choice = await to_thread.run_sync(state.catalogue.choice, request.path_params["key"])
    kept = await to_thread.run_sync(state.localizing.kept, choice)
    if kept is None:
        raise NotFoundError("no search was finished for this artifact.")
    return choice, kept


async def reproducer_of(request: Request) -> Response:
    """Return the script of an artifact's reproducer, or its text for the vendor's tracker."""
    state, suffix = state_of(request), request.url.path.rpartition(".")[2]
    choice = await to_thread.run_sync(state.catalogue.choice, request.path_params["key"])
    kept = await to_thread.run_sync(state.localizing.reproducer, choice)
    if kept is None:
        raise NotFoundError("no reproducer was written of this artifact.")
    path, media = (kept.script, "text/x-python") if suffix == "py" else (kept.text, "text/markdown")
    headers = {"content-disposition": f'attachment; filename="{choice.key}-reproducer.{suffix}"'}
    text = await to_thread.run_sync(lambda: path.read_text(encoding="utf-8"))
    return PlainTextResponse(text, media_type=media, headers=headers)


async def of_study(request: Request) -> Response:
    """Show what a study found of a target."""
    number, key, target = history_asked(request)
    results = await to_thread.run_sync(state_of(request).shelf.results, number)
    _, result = by_key(results).get((key, target), (None, None))
    if result is None or result.localized is None:
        raise NotFoundError(f"study {number} did not look for a wrong operator of {target[:80]} there.")
    try:
        found = Localized.from_json(result.localized)
    except Exception as error:
        raise NotFoundError("another version of cross-backend stored what was found; it cannot be shown.") from error
    return await _page(request, found, result.title, results.started[:16].replace("T", " "), None)


async def _page(request: Request, found: Localized, title: str, when: str, choice: Choice | None) -> Response:
    others = [(name, text) for name, text in request.query_params.multi_items() if name != "open"]
    address = f"?{urlencode(others)}&" if others else "?"
    drawn = await to_thread.run_sync(erring, found, opened_runs(request), address)
    script = None
    if choice is not None:
        script = await to_thread.run_sync(state_of(request).localizing.reproducer, choice)
    return page(
        request,
        "localized",
        here="artifacts" if choice is not None else "results",
        found=found,
        head=HEADS[found.culprit],
        title=title,
        when=when,
        choice=choice,
        script=script,
        drawn=drawn,
        address=address,
        numbers=numbers_text,
        layers=found.layers[:SHOWN_LAYERS],
        estimated=ESTIMATED,
    )


_STATE = record(
    state=TEXT,
    share={"type": "number"},
    text=TEXT,
    kind=TEXT,
    artifact={"type": ["string", "null"]},
    title=TEXT,
    says=TEXT,
    page={"type": ["string", "null"]},
)
_ONE = {"type": "object", "properties": {"artifact": TEXT}, "required": ["artifact"]}
ENDPOINTS: Sequence[Endpoint] = (
    Endpoint("POST", "/api/localize", "Find the operator that is wrong", begin_localizing, _STATE, (), _ONE),
    Endpoint("POST", "/api/reproduce", "Write a reproducer of what was found", begin_reproducer, _STATE, (), _ONE),
    Endpoint("GET", "/api/localizing", "How far the search is that was begun last", running_localizing, _STATE),
)
PAGES: Sequence[Route] = (
    Route("/artifacts/{key}/localized", of_artifact),
    Route("/artifacts/{key}/localized.json", of_artifact_json),
    Route("/artifacts/{key}/reproducer.py", reproducer_of),
    Route("/artifacts/{key}/reproducer.md", reproducer_of),
    Route("/results/{study}/localized", of_study),
)
