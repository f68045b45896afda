"""App: the whole server put together: state, routes, errors, and the guard around all of it."""

from __future__ import annotations

import contextlib
import mimetypes
from collections.abc import AsyncIterator, Sequence
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from cross_backend.cache import Cache
from cross_backend.errors import CrossBackendError, one_line
from cross_backend.web import generate_api, localized_pages, pages, study_api
from cross_backend.web.api import ENDPOINTS, GONE, status_of
from cross_backend.web.benches import Benches
from cross_backend.web.catalogue import Catalogue, Choice
from cross_backend.web.following import Following
from cross_backend.web.guard import Access, Guard
from cross_backend.web.localizing import Localizing
from cross_backend.web.shelf import NotFoundError, Shelf
from cross_backend.web.state import Events, State
from cross_backend.web.studying import Studying

if TYPE_CHECKING:
    from starlette.requests import Request

STATIC = (
    "artifact.js",
    "columns.js",
    "generating.js",
    "inputs.js",
    "localizing.js",
    "overlay.js",
    "playground.js",
    "report.css",
    "results.js",
    "running.js",
    "studying.js",
    "texts.js",
    "visitor.js",
    "web.css",
)
"""All files that pages may ask for; the choice of columns and the first style sheet are the report's."""


def build(paths: Sequence[Path], db: str | None, access: Access, cache: Cache, threads: int = 1) -> Starlette:
    """Return the application.

    Args:
        paths: bundles and folders of exports; the cache's artifacts where there are none.
        db: where studies lie.
        access: who may ask.
        cache: where artifacts and logs lie.
        threads: CPU threads of each target that names no number of its own.

    Raises:
        UsageError, ArtifactError: what a path names cannot be read.
    """
    catalogue, events = Catalogue(paths, cache), Events()

    def tell(event: str, choice: Choice, text: str) -> None:
        events.tell(event, artifact=choice.key, title=choice.title, text=text)

    studying, localizing = Studying(db, events.tell), Localizing(cache, threads, events.tell)
    following = Following(cache, db, events.tell)
    benches = Benches(cache, tell, threads)

    @contextlib.asynccontextmanager
    async def lifespan(_app: Starlette) -> AsyncIterator[None]:
        with benches, contextlib.closing(studying), contextlib.closing(localizing), following:
            yield

    endpoints = (*ENDPOINTS, *generate_api.ENDPOINTS, *study_api.ENDPOINTS, *localized_pages.ENDPOINTS)
    app = Starlette(
        routes=[
            *(one.route for one in endpoints),
            *localized_pages.PAGES,
            *pages.PAGES,
            Route("/static/{name}", _static),
        ],
        middleware=[Middleware(Guard, access=access)],
        exception_handlers={
            CrossBackendError: _failed,
            HTTPException: _refused,
            ClientDisconnect: _left,
            Exception: _broken,
        },
        lifespan=lifespan,
    )
    app.state.shared = State(
        catalogue, benches, Shelf(db), access, cache, studying, localizing, following, events=events
    )
    app.state.endpoints = endpoints
    return app


async def _static(request: Request) -> Response:
    """Return one of our own files: names are looked up in a table, so none leads elsewhere."""
    name = request.path_params["name"]
    if name not in STATIC:
        raise NotFoundError("there is no such file.")
    if name in ("columns.js", "report.css"):
        text = pages.template_text(name)
    else:
        text = (resources.files(__name__.rpartition(".")[0]) / "static" / name).read_text(encoding="utf-8")
    kind = "text/javascript" if name.endswith(".js") else mimetypes.guess_type(name)[0]
    return Response(text, media_type=kind, headers={"cache-control": "no-cache"})


def _wants_page(request: Request) -> bool:
    path = request.url.path
    return not path.startswith(("/api/", "/static/")) and "text/html" in request.headers.get("accept", "")


async def _failed(request: Request, error: Exception) -> Response:
    assert isinstance(error, CrossBackendError), "it is registered for those"
    return _said(request, status_of(error), one_line(error, 1000))


async def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException), "it is registered for those"
    text = "there is nothing at this address." if error.status_code == 404 else str(error.detail)
    return _said(request, error.status_code, text)


async def _left(_request: Request, _error: Exception) -> Response:
    """Answer who went in the middle of what was sent: nobody reads it, but the failure is none of ours."""
    return Response(status_code=GONE)


async def _broken(request: Request, error: Exception) -> Response:
    return _said(request, 500, f"the server failed: {one_line(error, 500)}")


def _said(request: Request, status: int, text: str) -> Response:
    if _wants_page(request):
        return pages.page(request, "error", status, here="", text=text)
    return JSONResponse({"error": text}, status)
