"""Endpoints: what an address of the API takes and returns, said once: the router and the OpenAPI document read it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cross_backend._version import __version__
from cross_backend.web.guard import TOKEN_HEADER

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.routing import Route

Schema = Mapping[str, Any]
TEXT: Schema = {"type": "string"}
WHOLE: Schema = {"type": "integer"}


def rows(of: Schema) -> Schema:
    """Return the schema of a list."""
    return {"type": "array", "items": of}


def record(**fields: Schema) -> Schema:
    """Return the schema of an object that has these fields; further ones may be added later."""
    return {"type": "object", "properties": fields, "required": list(fields)}


ERROR = record(error=TEXT)
MEANINGS = {
    400: "the request is not valid",
    401: "the server's token was not shown",
    403: "another site's request, or the page's token was not shown",
    404: "there is no such thing",
    405: "this address takes another method",
    408: "the request took too long to arrive",
    413: "it is too large",
    421: "the Host header names another machine",
}
"""Status of an error → when it is given; its body says more in one line."""


@dataclass(frozen=True)
class Parameter:
    """One value in the address."""

    name: str
    where: str
    """``path`` or ``query``."""
    schema: Schema
    required: bool = True


@dataclass(frozen=True)
class Endpoint:
    """One address of the API."""

    method: str
    path: str
    summary: str
    answer: Callable[[Request], Awaitable[Response]]
    gives: Schema
    """Schema of the answer where nothing is wrong."""
    parameters: tuple[Parameter, ...] = ()
    takes: Schema | None = None
    """Schema of what is sent; None where nothing is."""
    takes_type: str = "multipart/form-data"
    media_type: str = "application/json"

    @property
    def route(self) -> Route:
        """How the router knows it."""
        from starlette.routing import Route

        return Route(self.path, self.answer, methods=[self.method])

    def described(self) -> dict[str, Any]:
        """Return its OpenAPI operation."""
        errors = {
            str(status): {"description": text, "content": {"application/json": {"schema": ERROR}}}
            for status, text in MEANINGS.items()
        }
        done = {"description": "done", "content": {self.media_type: {"schema": self.gives}}}
        row: dict[str, Any] = {"summary": self.summary, "responses": {"200": done, **errors}}
        row["operationId"] = self.answer.__name__
        if self.parameters:
            row["parameters"] = [
                {"name": one.name, "in": one.where, "required": one.required, "schema": one.schema}
                for one in self.parameters
            ]
        if self.takes is not None:
            row["requestBody"] = {"required": True, "content": {self.takes_type: {"schema": self.takes}}}
            row["security"] = [{"pageToken": []}]
        return row


def openapi(endpoints: Sequence[Endpoint]) -> dict[str, Any]:
    """Return the OpenAPI document."""
    paths: dict[str, dict[str, Any]] = {}
    for endpoint in endpoints:
        paths.setdefault(endpoint.path, {})[endpoint.method.lower()] = endpoint.described()
    schemes = {"pageToken": {"type": "apiKey", "in": "header", "name": TOKEN_HEADER}}
    return {
        "openapi": "3.1.0",
        "info": {"title": "cross-backend", "version": __version__, "description": "Run, compare and browse."},
        "paths": paths,
        "components": {"securitySchemes": schemes},
    }
