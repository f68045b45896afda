"""Question: what is asked of a worker process: the arguments, the type of the answer, and how it is worked out there.

A question is said once, as one class; whoever asks and the process that answers read the same declaration.
"""

from __future__ import annotations

import functools
import importlib
import re
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, Generic, TypeVar, get_args

from cross_backend.errors import RunError
from cross_backend.serialization import from_json, to_json

Answer = TypeVar("Answer")
WRITTEN = {"written": True}
"""Metadata of a question's field: a path that the worker writes. Other paths are read."""


@dataclass
class Answering:
    """The process that answers, as its questions see it."""

    began_ns: int
    """When it had imported what it was started with, by ``perf_counter_ns``."""
    is_cold: bool = True
    """Whether nothing was opened yet."""
    open: Any = None
    """The artifact that an earlier question opened."""

    def held(self) -> Any:
        """Return what is open.

        Raises:
            RunError: nothing.
        """
        if self.open is None:
            raise RunError("no artifact is open.")
        return self.open


class Question(ABC, Generic[Answer]):
    """A frozen dataclass whose fields are the arguments: ``class Score(Question[float])``."""

    @property
    def name(self) -> str:
        """What is asked, as the process that answers finds it: ``module:Class``."""
        return f"{type(self).__module__}:{type(self).__qualname__}"

    @property
    def title(self) -> str:
        """How errors call it: its name in words."""
        return _in_words(type(self).__name__)

    @property
    def working_s(self) -> float:
        """Seconds for which it is to work; it may take as long as any other question beside that."""
        return 0.0

    @abstractmethod
    def answer(self, process: Answering) -> Answer:
        """Return the answer; runs in the worker process.

        Raises:
            CrossBackendError: reaches whoever asks as the same class with the same text.
        """


@functools.cache
def _in_words(name: str) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name).lower()


def request_of(question: Question[Any]) -> dict[str, Any]:
    """Return a question as JSON values."""
    return {"question": question.name, "arguments": to_json(question)}


def question_of(request: dict[str, Any]) -> Question[Any]:
    """Read what :func:`request_of` gave.

    Raises:
        RunError: it names no question.
    """
    module, _, name = str(request.get("question")).partition(":")
    kind = getattr(importlib.import_module(module), name, None) if module.startswith("cross_backend.") else None
    if not (isinstance(kind, type) and issubclass(kind, Question)):
        raise RunError(f"unknown question {request.get('question')!r}.")
    return from_json(kind, request["arguments"])


def answer_type(kind: type[Question[Any]]) -> Any:
    """Return the type of a question's answer."""
    (base,) = (b for b in kind.__orig_bases__ if get_args(b))  # type: ignore[attr-defined]
    return get_args(base)[0]
