"""Pages: what a person sees: the playground, the results of studies, what artifacts hold; and the files to download."""

from __future__ import annotations

import functools
import re
import tempfile
from collections.abc import Sequence
from dataclasses import asdict
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anyio import to_thread
from starlette.responses import FileResponse, HTMLResponse, JSONResponse
from starlette.routing import Route

from cross_backend._version import __version__
from cross_backend.browser.assets import ISOLATION, POLICY, content_type, model_files
from cross_backend.exporting.operations import Operation, operations
from cross_backend.generation.continuing import NEW_TOKENS
from cross_backend.names.platforms import COMPARED
from cross_backend.report import html
from cross_backend.report.charts.plots import for_both
from cross_backend.report.charts.svg import hatches, key
from cross_backend.report.looks import look_of
from cross_backend.report.outcomes import MEANINGS
from cross_backend.report.tables import size
from cross_backend.study.diff import MARGIN, diff
from cross_backend.study.matrix import NAME as MATRIX
from cross_backend.study.matrix import matrix_of
from cross_backend.study.reports import write_report
from cross_backend.web import visitor
from cross_backend.web.api import asked, history_asked, state_of, whole
from cross_backend.web.catalogue import Choice, Playable
from cross_backend.web.changing import change_chart
from cross_backend.web.graphing import WORDS, graph
from cross_backend.web.guard import HEADERS
from cross_backend.web.languages import chosen, translate
from cross_backend.web.mismatches import mismatches
from cross_backend.web.placing import placed
from cross_backend.web.shelf import NotFoundError
from cross_backend.web.study_api import LAUNCHES, SECONDS
from cross_backend.web.tracing import history_chart
from cross_backend.workloads.media import PromptMedia
from cross_backend.workloads.table import WORKLOADS

if TYPE_CHECKING:
    from jinja2 import Environment
    from starlette.background import BackgroundTask
    from starlette.requests import Request
    from starlette.responses import Response

DOWNLOADS = ("report.html", "report.md", "report.json", "samples.csv")
"""What of a study can be downloaded."""
GUIDES = {
    "reading": "How to read a report",
    "int8": "What int8 costs",
    "android": "Ship to Android",
}
"""Short pages, by the names of their files in ``guides/``."""
PROMPT = "The"
"""Text that a model is asked to continue where nobody wrote one."""
MOST_LETTERS = 48
"""Of a short reason."""
PLAY_POLICY = HEADERS["content-security-policy"].replace(
    "script-src 'self'", "script-src 'self' 'wasm-unsafe-eval'; worker-src 'self' blob:"
)
"""Of the playground, whose browser may run models itself."""


def template_text(name: str) -> str:
    """Return a template of ours, or one that the report has."""
    own = resources.files(__name__.rpartition(".")[0]) / "templates" / name
    return own.read_text(encoding="utf-8") if own.is_file() else html.template_text(name)


@functools.cache
def _surroundings(language: str) -> Environment:
    environment = html.surroundings(template_text)
    translate(environment, language)
    return environment


def page(request: Request, name: str, status: int = 200, **facts: Any) -> Response:
    """Fill in a template, in the browser's language; ``here`` is the part of the menu that it belongs to."""
    state = state_of(request)
    text = (
        _surroundings(chosen(request.headers.get("accept-language", "")))
        .get_template(f"{name}.html.template")
        .render(version=__version__, page_token=state.access.page_token, hatches=hatches(), **facts)
    )
    return HTMLResponse(text, status)


async def playground(request: Request) -> Response:
    """Choose a model and backends, and play."""
    models = await to_thread.run_sync(state_of(request).catalogue.models)
    model = _chosen(models, request.query_params.get("model"))
    if model is None:
        return page(request, "playground", here="play", models=[], model=None)
    wanted = set(request.query_params.getlist("on")) & {choice.key for choice in model.usable}
    ticked = wanted or {choice.key for choice in model.usable[:1]}
    absent = [choice for choice in model.choices if choice.unavailable]
    runs_here = visitor.can_run(model)
    answer = page(
        request,
        "playground",
        here="play",
        models=list(models.values()),
        model=model,
        visitor=runs_here,
        visitor_unavailable=visitor.unavailable() if runs_here else "",
        kind=None if model.media is None else model.media.kind,
        look_of=look_of,
        key=key,
        media=model.media,
        **_prompt(model),
        ticked=ticked,
        absent=absent,
    )
    answer.headers.update({**ISOLATION, "content-security-policy": PLAY_POLICY})
    return answer


def _prompt(model: Playable) -> dict[str, Any]:
    """Return what stands in the fields of a model that continues texts."""
    media = model.media
    if not isinstance(media, PromptMedia):
        return {}
    takes_text = media.tokenizer is not None or media.has_bytes
    return {"prompt": PROMPT if takes_text else "1 2 3", "new": min(NEW_TOKENS, media.tokens // 2)}


async def browser_file(request: Request) -> Response:
    """Return one of the files that run a model in the asking page's browser, under a policy that lets them."""
    path = model_files().get(request.path_params["name"])
    if path is None:
        raise NotFoundError("there is no such file.")
    headers = {**ISOLATION, "content-security-policy": POLICY, "cache-control": "no-cache"}
    return FileResponse(path, media_type=content_type(path), headers=headers)


def _chosen(models: dict[str, Playable], name: str | None) -> Playable | None:
    """Return the model of the address; else the first that can be played with."""
    if name is not None:
        if name not in models:
            raise NotFoundError(f"there is no model {name!r} here.")
        return models[name]
    ordered = sorted(models.values(), key=lambda model: (model.media is None or not model.usable, model.name))
    return ordered[0] if ordered else None


async def results(request: Request) -> Response:
    """List all studies."""
    rows = await to_thread.run_sync(state_of(request).shelf.listed)
    wanted = request.query_params.get("find", "").strip()
    shown = [one for one in rows if one.holds(wanted.lower())]
    running = state_of(request).studying.progress
    return page(
        request,
        "results",
        here="results",
        rows=shown,
        all=rows,
        count=len(rows),
        wanted=wanted,
        running=running,
        models=sorted(WORKLOADS),
        targets=COMPARED,
        seconds=SECONDS,
        launches=LAUNCHES,
    )


async def study(request: Request) -> Response:
    """Show one study, as its report does."""
    number = whole(request.path_params["study"])
    found = await to_thread.run_sync(state_of(request).shelf.results, number)
    parts = await to_thread.run_sync(html.study_parts, found)
    del parts["version"], parts["hatches"]
    wrong = await to_thread.run_sync(
        mismatches, state_of(request), number, [(view.label, view.panel) for view in parts["views"]]
    )
    others = [row for row in await to_thread.run_sync(state_of(request).shelf.studies) if row.id != number]
    return page(
        request,
        "study.page",
        here="results",
        number=number,
        others=others,
        downloads=DOWNLOADS,
        mismatches=wrong,
        **parts,
    )


async def matrix(request: Request) -> Response:
    """Show the latest matrix: models × backends × precisions, each cell with its reason."""
    shelf = state_of(request).shelf
    rows = [row for row in await to_thread.run_sync(shelf.studies) if row.name == MATRIX]
    if not rows:
        return page(request, "matrix", here="matrix", found=None)
    found = matrix_of(await to_thread.run_sync(shelf.results, rows[0].id))
    links = {model: [found.reason_of(cell) for cell in found.of(model)] for model in found.models}
    return page(request, "matrix", here="matrix", found=found, links=links, number=rows[0].id, meanings=MEANINGS)


async def study_history(request: Request) -> Response:
    """Draw one target's way through all studies of a name."""
    number, key, target = history_asked(request)
    moments = await to_thread.run_sync(state_of(request).shelf.history, number, key, target)
    title = f"{target}: {key.workload}, batch {key.batch}, threads {key.threads}"
    (chart,) = for_both(lambda: [history_chart(title, target, moments)])
    return page(request, "history", here="results", number=number, title=title, chart=chart, moments=moments)


async def study_diff(request: Request) -> Response:
    """Show what changed between two studies."""
    shelf = state_of(request).shelf
    numbers = [whole(asked(request, name)) for name in ("before", "after")]
    before, after = [await to_thread.run_sync(shelf.results, number) for number in numbers]
    found = await to_thread.run_sync(diff, before, after, MARGIN)
    charts = for_both(lambda: [change_chart(found)])
    return page(request, "diff", here="results", found=found, table=found.table(), charts=charts, numbers=numbers)


async def download(request: Request) -> Response:
    """Return a file of a study."""
    number, name = whole(request.path_params["study"]), request.path_params["name"]
    if name not in DOWNLOADS:
        raise NotFoundError(f"there is no file {name!r}; there are {', '.join(DOWNLOADS)}.")
    return await to_thread.run_sync(_file, request, number, name)


def _file(request: Request, number: int, name: str) -> Response:
    """Write the file into a folder that is gone when it is sent."""
    from cross_backend.store.tables import write_table

    shelf = state_of(request).shelf
    folder = tempfile.TemporaryDirectory()
    path = Path(folder.name) / name
    try:
        if name.startswith("report"):
            write_report(shelf.results(number), path)
        else:
            row = shelf.row(number)
            with shelf.open() as store:
                write_table(store, row, path)
    except BaseException:
        folder.cleanup()
        raise
    sandbox = {"content-security-policy": "sandbox"}  # what is downloaded is opened as a file, never as a page of ours
    return FileResponse(path, filename=f"study-{number}-{name}", headers=sandbox, background=_after(folder.cleanup))


def _after(step: Any) -> BackgroundTask:
    from starlette.background import BackgroundTask

    return BackgroundTask(step)


async def artifacts(request: Request) -> Response:
    """List all artifacts."""
    models = await to_thread.run_sync(state_of(request).catalogue.models)
    wanted = request.query_params.get("find", "").strip()
    exported = {name: [one for one in model.choices if one.artifact is not None] for name, model in models.items()}
    shown = {
        name: found
        for name, choices in exported.items()
        if (found := [one for one in choices if wanted.lower() in f"{name} {one.title} {one.target}".lower()])
    }
    count = sum(map(len, exported.values()))
    return page(
        request, "artifacts", here="artifacts", models=shown, count=count, wanted=wanted, size=size, short=short
    )


def short(reason: str) -> str:
    """Return the first words of why a backend is unavailable; the page has the rest behind a click."""
    first = re.split(r"; | \(|: ", reason, maxsplit=1)[0]
    return first if len(first) <= MOST_LETTERS else f"{first[:MOST_LETTERS].rpartition(' ')[0]} …"


async def artifact(request: Request) -> Response:
    """Show what one artifact holds: what is delegated, what is not, why, and by which line."""
    choice, found = await _operations(request)
    drawn = await to_thread.run_sync(graph, found, opened_runs(request))
    kept = await to_thread.run_sync(state_of(request).localizing.kept, choice)
    return page(
        request,
        "artifact",
        here="artifacts",
        choice=choice,
        shown=placed(choice),
        graph=drawn,
        words=WORDS,
        localized=kept,
    )


def opened_runs(request: Request) -> list[int] | None:
    """Return the numbers of the boxes of a graph that are to be opened; None for all."""
    wanted = request.query_params.get("open", "")
    if wanted == "all":
        return None
    return [int(one) for one in wanted.split(",")[:1000] if one.isascii() and one.isdecimal() and len(one) < 6]


async def artifact_operations(request: Request) -> Response:
    """Return what the graph of an artifact shows, as JSON."""
    choice, found = await _operations(request)
    headers = {"content-disposition": f'attachment; filename="{choice.key}-operations.json"'}
    return JSONResponse({"operations": [asdict(one) for one in found]}, headers=headers)


async def _operations(request: Request) -> tuple[Choice, Sequence[Operation]]:
    state = state_of(request)
    choice = await to_thread.run_sync(state.catalogue.choice, request.path_params["key"])
    return choice, () if choice.artifact is None else await to_thread.run_sync(operations, choice.artifact, state.cache)


async def guide(request: Request) -> Response:
    """Show one of the short pages: how to read a report, what int8 costs, ship to Android."""
    from markdown_it import MarkdownIt
    from markupsafe import Markup

    name = request.path_params["name"].removesuffix(".md")
    if name not in GUIDES:
        raise NotFoundError(f"there is no guide {name!r}; there are {', '.join(GUIDES)}.")
    text = (resources.files(__name__.rpartition(".")[0]) / "guides" / f"{name}.md").read_text(encoding="utf-8")
    html_text = MarkdownIt("commonmark", {"html": False}).enable("table").render(text)
    shown = Markup(html_text.replace("<table>", '<div class="scroll"><table>').replace("</table>", "</table></div>"))  # noqa: S704  of our own file
    return page(request, "guide", here="guides", title=GUIDES[name], text=shown, guides=GUIDES, which=name)


PAGES: Sequence[Route] = (
    Route("/", playground),
    Route("/browser/{name}", browser_file),
    Route("/guides/{name}", guide),
    Route("/matrix", matrix),
    Route("/results", results),
    Route("/results/diff", study_diff),
    Route("/results/{study}", study),
    Route("/results/{study}/history", study_history),
    Route("/results/{study}/{name}", download),
    Route("/artifacts", artifacts),
    Route("/artifacts/{key}", artifact),
    Route("/artifacts/{key}/operations.json", artifact_operations),
)
