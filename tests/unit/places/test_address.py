"""Addresses of places: what they mean, and what is none."""

from __future__ import annotations

import pytest

from cross_backend.errors import UsageError
from cross_backend.places.address import Address, parse


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("local", Address("local")),
        ("ssh://pi", Address("ssh", "pi")),
        ("ssh://me@pi.lan:2222", Address("ssh", "me@pi.lan", 2222)),
        ("ssh://[fe80::1%eth0]:22", Address("ssh", "[fe80::1%eth0]", 22)),
        ("ssh://[::1]", Address("ssh", "[::1]")),
        ("ssh://pi?python=~/env/bin/python", Address("ssh", "pi", None, (("python", "~/env/bin/python"),))),
        ("adb:", Address("adb")),
        ("adb:emulator-5554", Address("adb", "emulator-5554")),
        ("adb:192.168.1.7:5555", Address("adb", "192.168.1.7:5555")),
        ("qemu:aarch64", Address("qemu", "aarch64")),
    ],
)
def test_what_an_address_means(text: str, wanted: Address) -> None:
    assert parse(text) == wanted
    assert parse(str(wanted)).host == wanted.host


@pytest.mark.parametrize(
    "text",
    [
        *("", "here", "ssh", "ssh:pi", "ssh://", "ssh://-oProxyCommand=x", "ssh://me@-oX", "ssh://a b", "ssh://a;b"),
        *("ssh://pi:0", "ssh://pi:65536", "ssh://pi:x", "ssh://pi?shell=1", "ssh://pi?python=", "ssh://pi\n"),
        *("ssh://$(id)", "ssh://`id`", "adb:-s", "adb:a b", "adb:\x1b[2J", "qemu:", "qemu:-cpu", "http://pi", "ftp:pi"),
        *("ssh://me@you@pi", "ssh://pi/path", "ssh://pi?python=a\x1bb", "local:"),
    ],
)
def test_what_is_no_address(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse(text)
    assert "\n" not in str(caught.value) and "\x1b" not in str(caught.value)
