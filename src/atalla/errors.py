"""Errors of Atalla: one tree, so that a caller catches :class:`AtallaError`.

AtallaError
├── CompileError   a program that cannot be compiled at all
├── BlobError      bytes that are no sound blob; ``code`` is the same number that the C loader returns
├── KernelError    the C library or the host refused or failed; ``code`` is the library's status
└── InputError     inputs that do not fit the blob: number, dtype, shape

UnsupportedError never leaves the compiler: the node that it is about runs on the host.
ReferenceWarning is no error: a blob runs by the reference, because the C kernels were not built.
"""

from __future__ import annotations

from atalla.plain import plain


class AtallaError(Exception):
    """Any error of this package; no terminal obeys its text."""

    def __str__(self) -> str:
        return plain(super().__str__())


class CompileError(AtallaError):
    """A program that cannot be compiled."""


class BlobError(AtallaError):
    """Bytes that are no sound blob."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code
        """The loader's verdict, the same in C and in Python."""


class KernelError(AtallaError):
    """The C library refused or failed."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


class InputError(AtallaError):
    """Inputs that do not fit the blob."""


class UnsupportedError(Exception):
    """No instruction does what a node asks for; the text is the user's reason. The compiler then calls the host."""


class ReferenceWarning(UserWarning):
    """There are no C kernels: the reference runs the blob, right and slowly."""
