"""Disks that are full or read-only, pipes that close: one clear line, and no half-written artifact."""

import os
import shlex
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

EXPORT = ("export", "linear_regression", "--backends", "cpu", "openvino")


def _mount(folder):
    folder.mkdir()
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", folder], capture_output=True, check=False)
    return done.returncode == 0


@pytest.fixture
def full_disk(tmp_path):
    """A folder on a full disk, and what no file may grow beyond where no disk could be made for it."""
    folder = tmp_path / "disk"
    if not _mount(folder):
        yield folder, 0
        return
    try:
        with suppress(OSError), (folder / "filler").open("wb", buffering=0) as filler:
            while True:
                filler.write(b"\0" * 4096)
        yield folder, None
    finally:
        subprocess.run(["umount", folder], check=True)


def _no_room(line):
    return "No space left on device" in line or "File too large" in line


def test_full_disk_for_artifacts(full_disk, linear, cli, complaint):
    folder, limit = full_disk
    line = complaint(cli(*EXPORT, "--output-dir", folder, max_file_bytes=limit), 1)
    assert _no_room(line)
    assert {path.name for path in folder.iterdir()} <= {"filler"}


@pytest.fixture(scope="module")
def sizes(cli, tmp_path_factory):
    """Export to the null backend, whose payload is smaller than its manifest: {suffix: bytes}."""
    folder = tmp_path_factory.mktemp("null")
    assert cli("export", "linear_regression", "--backends", "null", "--output-dir", folder).returncode == 0
    return {path.suffix: path.stat().st_size for path in folder.iterdir()}


@pytest.mark.parametrize("file", [".null", ".json", ".npz"])
def test_file_that_does_not_fit_leaves_nothing_behind(file, sizes, cli, tmp_path, complaint):
    """Payload, manifest and sample are in turn the file that lacks one byte of room; smaller ones fit."""
    assert sizes[".null"] < sizes[".json"] < sizes[".npz"]
    out, room_bytes = tmp_path / "out", sizes[file] - 1
    result = cli("export", "linear_regression", "--backends", "null", "--output-dir", out, max_file_bytes=room_bytes)
    complaint(result, 1, "File too large")
    assert list(out.iterdir()) == []


def test_full_disk_does_not_harm_the_artifact_that_was_there(damaged, cli, complaint):
    before = {path.name: path.read_bytes() for path in damaged.iterdir() if path.is_file()}
    result = cli("export", "linear_regression", "--backends", "cpu", "--output-dir", damaged, max_file_bytes=1000)
    complaint(result, 1)
    assert {path.name: path.read_bytes() for path in damaged.iterdir() if path.is_file()} == before


def test_full_disk_for_the_cache(full_disk, cli, tmp_path, complaint):
    folder, limit = full_disk
    line = complaint(cli(*EXPORT, "--output-dir", tmp_path / "out", cache=folder / "cache", max_file_bytes=limit), 1)
    assert _no_room(line)


def test_full_disk_where_torch_writes(cli, tmp_path, complaint):
    """Its own writer would abort the process, whose last words are a line of a C++ stack."""
    (tmp_path / "net.py").write_text("import torch\ndef net(): return torch.nn.Linear(300, 300), torch.ones(1, 300)\n")
    args = ("export", f"{tmp_path / 'net.py'}:net", "--backends", "torch", "--output-dir", tmp_path / "out")
    line = complaint(cli(*args, cache=tmp_path / "cache", max_file_bytes=200_000), 1)
    assert _no_room(line) and "frame #" not in line and "SIGABRT" not in line


def test_modules_that_were_imported_on_a_full_disk_can_be_imported_again(cli, tmp_path):
    (tmp_path / "words.py").write_text(f"WORDS = {[str(one) for one in range(1000)]}\n")
    (tmp_path / "net.py").write_text("import torch, words\ndef net(): return torch.nn.Linear(2, 2), torch.ones(1, 2)\n")
    args = ("export", "net.py:net", "--backends", "torch", "--output-dir", tmp_path / "out")
    assert _no_room(cli(*args, cwd=tmp_path, cache=tmp_path / "cache", max_file_bytes=1000).stderr)
    again = cli(*args, cwd=tmp_path, cache=tmp_path / "cache")
    assert again.returncode == 0, again.stderr


def test_disk_that_becomes_full_while_lowering(full_disk, cli, tmp_path):
    """The capture fits and the lowered files do not: told per target, and the cache keeps nothing broken."""
    folder, limit = full_disk
    if limit is not None:
        pytest.skip("no small disk can be mounted; run as root: make test TEST=tests/e2e/test_bad_surroundings.py")
    with (folder / "filler").open("r+b") as filler:
        filler.truncate(26_000)
    (tmp_path / "net.py").write_text(
        "import torch\ndef net():\n    torch.manual_seed(0)\n    return torch.nn.Linear(64, 64), (torch.ones(1, 64),)\n"
    )
    model = f"{tmp_path / 'net.py'}:net"
    args = ("export", model, "--backends", "torch", "cpu", "--output-dir", tmp_path / "out")
    result = cli(*args, cache=folder / "cache")
    assert result.returncode == 1
    assert "Traceback" not in result.stderr and _no_room(result.stdout + result.stderr)
    assert not list(folder.glob("cache/tmp/*")) and not list(folder.glob("cache/artifacts/*"))


@pytest.mark.parametrize("command", ["export", "compare"])
def test_output_folder_that_cannot_be_made(command, linear, cli, tmp_path, complaint):
    (tmp_path / "file").touch()
    result = cli(command, "linear_regression", "--backends", "cpu", "--output-dir", tmp_path / "file" / "out")
    complaint(result, result.returncode, "file/out")
    assert result.returncode in {1, 2} and result.stdout == ""


def test_output_folder_that_is_a_file(linear, cli, tmp_path, complaint):
    (tmp_path / "file").touch()
    result = cli(*EXPORT, "--output-dir", tmp_path / "file")
    complaint(result, result.returncode, "file")
    assert result.returncode in {1, 2} and result.stdout == ""


def test_payload_whose_place_is_taken_by_a_folder(linear, cli, tmp_path):
    """A full folder under the artifact's name is replaced whole, as an older artifact would be."""
    (tmp_path / "linear_regression_onnxruntime.onnx").mkdir()
    (tmp_path / "linear_regression_onnxruntime.onnx" / "old").touch()
    result = cli("export", "linear_regression", "--backends", "cpu", "--output-dir", tmp_path)
    assert result.returncode == 0, result.stderr
    assert (tmp_path / "linear_regression_onnxruntime.onnx").is_file()


@pytest.mark.parametrize("command", [EXPORT, ("compare", "linear_regression", "--backends", "cpu")])
def test_cache_that_cannot_be_written(command, cli, tmp_path, complaint):
    (tmp_path / "file").touch()
    result = cli(*command, cwd=tmp_path, cache=tmp_path / "file" / "cache")
    complaint(result, 1, "file/cache")


@pytest.mark.parametrize("artifact", ["linear_regression_onnxruntime.json", "."])
def test_outputs_that_cannot_be_written(artifact, linear, cli, tmp_path, complaint):
    """Not the artifact's fault: no other candidate of a folder is tried."""
    where = tmp_path / "absent" / "out.npz"
    result = cli("run", linear / artifact, "--input", "1,2,3,4", "--output", where)
    line = complaint(result, result.returncode, str(where))
    assert result.returncode in {1, 2}
    assert "passed over" not in result.stderr and line.count(str(where)) == 1


@pytest.mark.parametrize(
    "args",
    [
        ("--help",),
        ("--version",),
        ("export", "--help"),
        ("models",),
        ("backends", "--json"),
        ("export", "linear_regression", "--backends", "cpu"),
        ("compare", "linear_regression", "--backends", "cpu", "--num-runs", "6", "--json"),
    ],
    ids=" ".join,
)
def test_reader_that_went_away(args, linear, cli, tmp_path):
    """As with ``| head -0``: the pipe is closed before the first line."""
    reader, writer = os.pipe()
    os.close(reader)
    try:
        result = cli(*args, stdout=writer, cwd=tmp_path)
    finally:
        os.close(writer)
    assert "Traceback" not in result.stderr and "Error" not in result.stderr and "Exception" not in result.stderr


@pytest.mark.parametrize("closed", [(1,), (1, 2)])
@pytest.mark.parametrize(
    "args", [("models",), ("compare", "linear_regression", "--backends", "cpu", "--num-runs", "6")], ids=" ".join
)
def test_closed_streams(args, closed, linear, cli):
    """As with ``>&-``: nobody is told, and nothing that is opened takes their place."""
    result = cli(*args, preexec=lambda: [os.close(number) for number in closed])
    assert result.returncode == 0 and "Traceback" not in result.stderr


def test_reader_of_a_comparison_that_takes_one_line(linear):
    command = f"{shlex.quote(sys.executable)} -m cross_backend compare linear_regression --backends cpu --num-runs 6"
    process = subprocess.run(["bash", "-c", f"{command} | head -1"], capture_output=True, text=True, check=False)
    assert process.stdout.startswith("* cross-backend: linear_regression") and "Traceback" not in process.stderr


def test_reader_that_takes_one_line():
    script = f"set -o pipefail; {shlex.quote(sys.executable)} -m cross_backend backends --json | head -1"
    process = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=False)
    assert process.stdout == "{\n" and process.stderr == ""


@pytest.mark.parametrize("args", [("models",), ("backends", "--json")], ids=" ".join)
def test_standard_output_on_a_full_disk(args, cli, complaint):
    with Path("/dev/full").open("w") as full:
        complaint(cli(*args, stdout=full), 1, "No space left on device")
