"""Address: the text that names a place: ``local``, ``ssh://user@host:22``, ``adb:SERIAL``, ``qemu:aarch64``."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import parse_qsl

from cross_backend.errors import UsageError, unknown_name

FORMS = ("local", "ssh://[USER@]HOST[:PORT][?python=PATH]", "adb:[SERIAL]", "qemu:ARCHITECTURE")
KINDS = ("ssh", "adb", "qemu")
_HOST = re.compile(r"(?:[\w.+-]+@)?(?:[\w.-]+|\[[0-9a-fA-F:.%\w]+\])")
"""What ssh takes as a destination, without what a shell or ssh itself reads as something else."""
_PLAIN = re.compile(r"[\w.:-]*")


@dataclass(frozen=True)
class Address:
    """Where a place is."""

    kind: str
    """``local``, or one of :data:`KINDS`."""
    host: str = ""
    """``user@host`` of ssh, serial number of adb, architecture of qemu."""
    port: int | None = None
    options: tuple[tuple[str, str], ...] = ()

    def __str__(self) -> str:
        """Return the address without its options."""
        if self.kind == "local":
            return "local"
        if self.kind != "ssh":
            return f"{self.kind}:{self.host}"
        return f"ssh://{self.host}{'' if self.port is None else f':{self.port}'}"

    def option(self, name: str, default: str) -> str:
        """Return an option's value."""
        return dict(self.options).get(name, default)


def parse(text: str) -> Address:
    """Read an address.

    Raises:
        UsageError: it is none.
    """
    if text == "local":
        return Address("local")
    kind, colon, rest = text.partition(":")
    if not colon or kind not in KINDS:
        raise UsageError(f"{text!r} is no place. Places: {', '.join(FORMS)}.")
    if kind == "ssh":
        return _ssh(text, rest)
    if not _PLAIN.fullmatch(rest) or rest.startswith("-") or (kind == "qemu" and not rest):
        raise UsageError(f"{text!r} is no place. Places: {', '.join(FORMS)}.")
    return Address(kind, rest)


def _ssh(text: str, rest: str) -> Address:
    whole, _, query = rest.removeprefix("//").partition("?")
    host, _, port = whole.rpartition(":") if re.search(r":\d+$", whole) and not whole.endswith("]") else (whole, "", "")
    if not rest.startswith("//") or not _HOST.fullmatch(host) or host.startswith("-") or "@-" in host:
        raise UsageError(f"{text!r} is no ssh address. Write {FORMS[1]}.")
    if port and not 1 <= int(port) <= 65535:
        raise UsageError(f"{text!r}: {port} is no port. Ports are 1 to 65535.")
    options: Mapping[str, str] = dict(parse_qsl(query, keep_blank_values=True))
    for name, value in options.items():
        if name != "python":
            raise unknown_name("option of a place", name, ["python"])
        if not value or not value.isprintable():
            raise UsageError(f"{text!r}: python is the path of an interpreter there.")
    return Address("ssh", host, int(port) if port else None, tuple(options.items()))
