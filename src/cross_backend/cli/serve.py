"""Open the playground and the results browser: a web application of this machine, offline, in your browser."""

from __future__ import annotations

import argparse
import importlib.util
import secrets
from pathlib import Path

from cross_backend.cli import positive_int
from cross_backend.cli._options import check_threads
from cross_backend.errors import UnavailableError, UsageError

NEEDED = ("starlette", "uvicorn", "httptools", "multipart", "PIL")
"""Modules that the extra ``web`` brings."""
HERE = ("127.0.0.1", "::1", "localhost")
LEAST_TOKEN = 8
"""Characters of a token that others may guess."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument(
        "paths",
        type=Path,
        nargs="*",
        metavar="BUNDLE",
        help="bundles or folders of exports to play with (default: all that the cache holds)",
    )
    parser.add_argument("--db", metavar="PLACE", help="where studies are stored: a file, or postgresql://HOST/NAME")
    parser.add_argument("--port", type=int, default=8765, metavar="N", help="0 for any free one (default: 8765)")
    parser.add_argument("--host", default=HERE[0], help=f"address to listen on (default: {HERE[0]}, this machine only)")
    parser.add_argument("--token", metavar="TEXT", help="what everybody must show; needed beyond this machine")
    parser.add_argument("--no-open", action="store_true", help="do not open a browser")
    parser.add_argument("--threads", type=positive_int, default=1, metavar="N", help="CPU threads (default: 1)")


def main(args: argparse.Namespace) -> int:
    """Serve until Ctrl-C."""
    missing = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        raise UnavailableError(f"'serve' needs {', '.join(missing)}", "pip install 'cross-backend[web]'")
    check_threads(args.threads)
    if not 0 <= args.port < 1 << 16:
        raise UsageError(f"--port {args.port} is no port.")
    if args.host not in HERE and args.token is None:
        token = secrets.token_urlsafe(12)
        raise UsageError(f"--host {args.host} can be reached by others, so it needs a token: --token {token}.")
    if args.token is not None and (len(args.token) < LEAST_TOKEN or not args.token.isascii()):
        raise UsageError(f"--token must have at least {LEAST_TOKEN} characters, all of ASCII.")
    return _serve(args)


def _serve(args: argparse.Namespace) -> int:
    import platform
    import webbrowser
    from urllib.parse import quote

    from cross_backend.cache import Cache
    from cross_backend.store.database import Database
    from cross_backend.web.app import build
    from cross_backend.web.guard import Access
    from cross_backend.web.server import bound, server

    Database.named(args.db)  # a place that cannot be is told before anything is opened
    names = frozenset({platform.node().lower()} - {""}) if args.token is not None else frozenset[str]()
    app = build(args.paths, args.db, Access(args.token, names), Cache(), args.threads)
    listening = bound("127.0.0.1" if args.host == "localhost" else args.host, args.port)
    host = f"[{args.host}]" if ":" in args.host else args.host
    asked = "127.0.0.1" if args.host == "0.0.0.0" else host  # noqa: S104  compared, not listened on
    address = f"http://{asked}:{listening.getsockname()[1]}/"
    if args.token is not None:
        address += f"?token={quote(args.token, safe='')}"

    def ready() -> None:
        print(f"🌐 {address}  (Ctrl-C ends it)", flush=True)
        if not args.no_open:
            webbrowser.open(address)

    server(app, ready).run([listening])
    return 0
