"""Bundles that are damaged or meant to harm: one line and status 2."""

import os
import time
from pathlib import Path

import pytest

from cross_backend.artifact import digest_path
from tests.e2e.runner.bundles import PORTABLE, QUICK, XNNPACK, artifact, edit


def set_at(*path, value):
    def change(row):
        for key in path[:-1]:
            row = row[key]
        row[path[-1]] = value

    return change


def drop(*path):
    def change(row):
        for key in path[:-1]:
            row = row[key]
        del row[path[-1]]

    return change


FIRST = ("artifacts", 0)
INPUT = ("sample", "inputs", 0)
HARM = {
    "another format": (set_at("format", value="something-else"), "format"),
    "a newer version": (set_at("version", value=2), "version is 2"),
    "version zero": (set_at("version", value=0), "version"),
    "a version in words": (set_at("version", value="1"), "version"),
    "a negative version": (set_at("version", value=-1), "version"),
    "a broken version": (set_at("version", value=1.5), "version"),
    "no version": (drop("version"), "version"),
    "no model": (drop("model"), "model"),
    "a model with control codes": (set_at("model", value="\x1b[2J"), "model"),
    "no artifacts": (drop("artifacts"), "artifacts"),
    "artifacts are an object": (set_at("artifacts", value={}), "artifacts"),
    "artifact is null": (set_at(*FIRST, value=None), "artifacts[0]"),
    "payload is absolute": (set_at(*FIRST, "path", value="/etc/passwd"), "artifacts[0].path"),
    "payload climbs out": (set_at(*FIRST, "path", value="../../etc/passwd"), "artifacts[0].path"),
    "payload climbs out later": (set_at(*FIRST, "path", value="sample/../../x"), "artifacts[0].path"),
    "payload climbs out the other way": (set_at(*FIRST, "path", value="..\\x"), "artifacts[0].path"),
    "payload is on a drive": (set_at(*FIRST, "path", value="C:x"), "artifacts[0].path"),
    "payload is the folder": (set_at(*FIRST, "path", value="."), "artifacts[0].path"),
    "payload has no name": (set_at(*FIRST, "path", value=""), "artifacts[0].path"),
    "payload hides its end": (set_at(*FIRST, "path", value="linear_regression_xnnpack.pte\x00/x"), "path"),
    "payload is a number": (set_at(*FIRST, "path", value=7), "artifacts[0].path"),
    "no digest": (set_at(*FIRST, "sha256", value=None), "artifacts[0].sha256"),
    "a short digest": (set_at(*FIRST, "sha256", value="abc"), "artifacts[0].sha256"),
    "a negative size": (set_at(*FIRST, "size_bytes", value=-1), "artifacts[0].size_bytes"),
    "a size that does not fit": (set_at(*FIRST, "size_bytes", value=10**30), "artifacts[0].size_bytes"),
    "tolerance in words": (set_at(*FIRST, "tolerance", value="all"), "artifacts[0].tolerance"),
    "a negative tolerance": (set_at(*FIRST, "tolerance", value=-1), "artifacts[0].tolerance"),
    "no placement": (drop(*FIRST, "placement"), "placement"),
    "delegates are a list": (set_at(*FIRST, "placement", "delegates", value=[1]), "delegates"),
    "an endless name": (set_at(*FIRST, "name", value="x" * 10**6), "artifacts[0].name"),
    "two of one name": (set_at("artifacts", 1, "name", value=XNNPACK), "artifacts[1].name"),
    "an order of strangers": (set_at("orders", value={"ios": ["x"]}), "orders.ios[0]"),
    "an order is a number": (set_at("orders", value={"ios": 3}), "orders.ios"),
    "sample climbs out": (set_at(*INPUT, "path", value="../x.npy"), "sample.inputs[0].path"),
    "sample of no type": (set_at(*INPUT, "dtype", value="complex32"), "sample.inputs[0].dtype"),
    "sample of no shape": (set_at(*INPUT, "shape", value=None), "sample.inputs[0].shape"),
    "a dynamic sample": (set_at(*INPUT, "shape", value=["batch", 4]), "sample.inputs[0].shape[0]"),
    "shape and size differ": (set_at(*INPUT, "shape", value=[1, 5]), "sample.inputs[0].size_bytes"),
    "a shape that overflows": (set_at(*INPUT, "shape", value=[2**31 - 1] * 8), "sample.inputs[0].shape"),
    "a huge extent": (set_at(*INPUT, "shape", value=[2**63]), "sample.inputs[0].shape[0]"),
    "a shape of a million": (set_at(*INPUT, "shape", value=[1] * 10**6), "manifest.json"),
    "a sample of a terabyte": (
        lambda row: row["sample"]["inputs"][0].update(shape=[2**19, 2**19], size_bytes=2**40),
        "sample.inputs[0].size_bytes",
    ),
    "samples of six gigabytes": (
        lambda row: row["sample"].update(
            inputs=[{**row["sample"]["inputs"][0], "shape": [2**29], "size_bytes": 2**31}] * 3
        ),
        "sample.inputs takes more than 4 GiB",
    ),
    "a sample at the end of everything": (set_at(*INPUT, "offset", value=2**64 - 1), "sample.inputs"),
    "nothing to compare with": (set_at("sample", "expected", value=[]), "sample.expected"),
    "a million artifacts": (set_at("artifacts", value=[0] * 10**6), "manifest.json"),
    "a million delegates": (
        set_at(*FIRST, "placement", "delegates", value={str(k): 1 for k in range(10**6)}),
        "manifest.json",
    ),
}


@pytest.mark.parametrize("how", HARM)
def test_manifest_that_lies(how, bundle, refused):
    change, word = HARM[how]
    edit(bundle, change)
    started = time.monotonic()
    line = refused(bundle, words=(word,))
    assert "\x1b" not in line
    assert time.monotonic() - started < 10


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "7",
        "null",
        '"x"',
        "\x00\x01",
        "[" * 10**6,
        '{"a":' * 10**5,
        "{}",
        '{"format": "cross-',
        "9" * 10**6,
    ],
)
def test_manifest_that_is_none(text, bundle, refused):
    (bundle / "manifest.json").write_text(text)
    refused(bundle, words=("manifest.json",))


def test_truncated_manifest(bundle, refused):
    manifest = bundle / "manifest.json"
    content = manifest.read_bytes()
    for size in range(0, len(content) - 2, 97):
        manifest.write_bytes(content[:size])
        refused(bundle, words=("manifest.json",))


def test_manifest_too_large_is_not_read(bundle, refused):
    with (bundle / "manifest.json").open("r+b") as file:
        file.truncate(1 << 40)
    refused(bundle, words=("larger",))


def test_link_out_of_the_folder(bundle, tmp_path, refused):
    payload = bundle / f"{XNNPACK}.pte"
    payload.rename(tmp_path / "outside.pte")
    payload.symlink_to(tmp_path / "outside.pte")
    refused(bundle, words=("leads out of the folder",))


def test_link_to_a_folder_outside(bundle, tmp_path, refused):
    (bundle / "sample").rename(tmp_path / "outside")
    (bundle / "sample").symlink_to(tmp_path / "outside")
    refused(bundle, words=("leads out of the folder",))


def test_manifest_that_is_a_link_out_of_the_folder(bundle, tmp_path, refused):
    (bundle / "manifest.json").rename(tmp_path / "outside.json")
    (bundle / "manifest.json").symlink_to(tmp_path / "outside.json")
    refused(bundle, words=("manifest.json leads out of the folder",))


@pytest.mark.parametrize("name", ["manifest.json", "sample/input_0.npy", "sample/expected_0.npy"])
def test_what_is_no_file_is_not_waited_for(name, bundle, refused):
    """Who opens a pipe waits for somebody to write."""
    (bundle / name).unlink()
    os.mkfifo(bundle / name)
    refused(bundle, words=(f"{Path(name).name} is not a regular file",))


def test_pipe_inside_of_a_payload(bundle, rows):
    """A digest that passed over what is no file would be right, and a runtime may open it."""
    folder = bundle / "payload"
    folder.mkdir()
    edit(bundle, lambda row: artifact(row, XNNPACK).update(path="payload", sha256=digest_path(folder)))
    os.mkfifo(folder / "weights")
    assert rows(bundle, *QUICK)[XNNPACK]["reason"] == "weights is not a regular file"


@pytest.mark.parametrize("name", ["input_0", "expected_0"])
@pytest.mark.parametrize("how", ["changed", "truncated", "missing", "endless"])
def test_damaged_sample(how, name, bundle, refused):
    path = bundle / "sample" / f"{name}.npy"
    if how == "missing":
        path.unlink()
    elif how == "endless":
        with path.open("r+b") as file:
            file.truncate(1 << 40)
    else:
        content = path.read_bytes()
        path.write_bytes(content[:-1] if how == "truncated" else content[:-1] + b"\x01")
    refused(bundle, words=(f"{name}.npy",))


def test_pipe_in_place_of_a_payload(bundle, rows):
    (bundle / f"{XNNPACK}.pte").unlink()
    os.mkfifo(bundle / f"{XNNPACK}.pte")
    found = rows(bundle, *QUICK)
    assert (found[XNNPACK]["outcome"], found[PORTABLE]["outcome"]) == ("LOAD_FAIL", "OK")


def test_payload_that_is_a_folder(bundle, rows):
    """Its digest is that of its files and their names, as the Python package computes it; this runtime wants a file."""
    folder = bundle / "payload"
    (folder / "a").mkdir(parents=True)
    (folder / "a" / "x").write_bytes(b"1")
    (folder / "a-b").write_bytes(b"2")
    (folder / "ä").write_bytes(b"3")
    edit(bundle, lambda row: artifact(row, XNNPACK).update(path="payload", sha256=digest_path(folder)))
    assert "sha256" not in rows(bundle, *QUICK)[XNNPACK]["reason"]
    (folder / "a" / "x").write_bytes(b"0")
    assert "sha256" in rows(bundle, *QUICK)[XNNPACK]["reason"]
