"""Errors of this package: one tree, so that a caller catches :class:`MychipError`."""


class MychipError(Exception):
    """Any error of this package: one line for whoever uses it."""


class CompileError(MychipError):
    """A program that the chip cannot run."""


class BlobError(MychipError):
    """Bytes that are no sound blob."""


class BuildError(MychipError):
    """The C or C++ library cannot be built or opened here."""
