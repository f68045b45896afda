"""The command: compile, disasm, info and run, as a user calls them; what goes wrong is one line."""

from __future__ import annotations

import io
import json
import os
import struct
import subprocess
import sys
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from atalla import library
from atalla.blob.reader import parse
from atalla.cli import COMMANDS, main
from atalla.isa import Dtype
from atalla.run.runtime import _warn_once
from tests.atalla import calls
from tests.atalla.test_verify import sections, signed

MODEL = """
import torch

class Words(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.table = torch.nn.Embedding(7, 6)
        self.out = torch.nn.Linear(6, 3)

    def forward(self, words, scale):
        places = self.table(words).mean(1)
        return self.out(places) * scale, places.sort(-1).values

def words():
    return Words(), (torch.randint(0, 7, (2, 5)), torch.ones(2, 1))

def plain():
    return torch.nn.Linear(6, 3), torch.ones(2, 6)

def captured():
    return torch.export.export(*words())

def nothing():
    return None

def fails():
    raise ValueError("no such\\nluck")

class Branch(torch.nn.Module):
    def forward(self, x):
        return x if x.sum() > 0 else -x

def branch():
    return Branch(), (torch.ones(2),)
"""
Call = Callable[..., tuple[int, str, str]]


@pytest.fixture
def atalla_command(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Call:
    """Give a function that runs the command in a folder with MODEL as ``net.py``: status, output, complaints."""
    (tmp_path / "net.py").write_text(MODEL)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    for name in ("net", "package", "package.net"):
        monkeypatch.delitem(sys.modules, name, raising=False)

    def call(*arguments: str) -> tuple[int, str, str]:
        try:
            status = main(arguments)
        except SystemExit as end:
            status = int(end.code or 0)
        out, complaints = capsys.readouterr()
        return status, out, complaints

    return call


@pytest.fixture(scope="module")
def kept() -> dict[str, bytes]:
    """Give what tests keep for those after them."""
    return {}


@pytest.fixture
def blob(atalla_command: Call, kept: dict[str, bytes]) -> str:
    """Give the name of a compiled ``net.py:words``, which is compiled once."""
    if not kept:
        assert atalla_command("compile", "net.py:words", "-o", "words.atalla")[0] == 0
        kept["words"] = Path("words.atalla").read_bytes()
    Path("words.atalla").write_bytes(kept["words"])
    return "words.atalla"


def test_the_show(atalla_command: Call) -> None:
    status, out, complaints = atalla_command("compile", "mobilenet_v3_small", "-o", "m.atalla")
    assert (status, complaints) == (0, "")
    assert "fallbacks     none" in out and "the least that is possible" in out and "CONV2D" in out
    status, out, _ = atalla_command("disasm", "m.atalla")
    first = next(line for line in out.splitlines() if " CONV2D " in line)
    assert status == 0 and "weight=features.0.0.weight" in first and "@arena+0x" in first and "@const+0x0" in first
    assert "mobilenetv3.py:" in first and "stride=2×2 pad=1,1,1,1 kernel=3×3" in first
    status, out, _ = atalla_command("run", "m.atalla", "--profile", "--num-runs", "3", "--outputs", "y.pt")
    (logits,) = torch.load("y.pt", weights_only=True)
    assert logits.shape == (1, 1000) and logits.std() > 1e-3, "as torchvision builds it, it gives 1e-15"
    assert status == 0 and "latency  median" in out and "processor time" in out and "By operation" in out
    table = out.split("By instruction:\n")[1].splitlines()
    spent = [float(line.split()[0]) for line in table[1:]]
    assert len(spent) == len(parse(Path("m.atalla").read_bytes()).instructions) - 1
    assert spent == sorted(spent, reverse=True) and spent[0] > 0


def test_the_seed_decides_random_weights(atalla_command: Call) -> None:
    blobs = []
    for seed in ("1", "1", "2"):
        assert atalla_command("compile", "net.py:plain", "-o", "m.atalla", "--seed", seed)[0] == 0
        blobs.append(Path("m.atalla").read_bytes())
    assert blobs[0] == blobs[1] != blobs[2]


def test_every_way_to_name_a_model_compiles_the_same(atalla_command: Call) -> None:
    (Path.cwd() / "package").mkdir()
    (Path.cwd() / "package" / "net.py").write_text(MODEL)
    operations = []
    for model in ("net.py:words", "net.py:captured", "package.net:words", "net.pt2"):
        if model == "net.pt2":
            torch.export.save(sys.modules["package.net"].captured(), model)
        status, out, complaints = atalla_command("compile", model, "--json", "-o", "m.atalla")
        assert (status, complaints) == (0, ""), model
        operations.append(json.loads(out)["operations"])
    assert operations == [operations[0]] * 4 and operations[0]["CALL_HOST"] == 1
    assert atalla_command("compile", "net.py:plain")[0] == 0 and Path("net_plain.atalla").exists()


def test_a_summary_says_what_falls_back_and_why(atalla_command: Call, blob: str) -> None:
    status, out, _ = atalla_command("info", blob)
    assert status == 0 and "fallbacks     1 of 3 segments" in out
    assert "fallback     aten.sort.default: no instruction does it  ; net.py:12 in forward" in out
    document = json.loads(atalla_command("info", blob, "--json")[1])
    assert [one["runs_on"] for one in document["segments"]] == ["accelerator", "host", "accelerator"]
    assert document["size_bytes"] == Path(blob).stat().st_size
    assert document["arena_bytes"] == document["arena_bound_bytes"] > 0


def test_weights_come_from_a_checkpoint(atalla_command: Call) -> None:
    torch.save({"weight": torch.full((3, 6), 2.0), "bias": torch.zeros(3)}, "w.pt")
    np.savez("x.npz", np.ones((2, 6), np.float32))
    assert atalla_command("compile", "net.py:plain", "--weights", "w.pt", "-o", "m.atalla")[0] == 0
    assert atalla_command("run", "m.atalla", "--inputs", "x.npz", "--outputs", "y.npz", "--num-runs", "1")[0] == 0
    with np.load("y.npz") as file:
        assert (file["arr_0"] == 12.0).all()


@pytest.mark.parametrize("isa", [(), ("--isa", "base"), ("--isa", "reference")], ids=" ".join)
@pytest.mark.parametrize("kind", ["by name", "in order", "list", "dict"])
def test_inputs_and_outputs_are_files(atalla_command: Call, blob: str, kind: str, isa: Sequence[str]) -> None:
    words, scale = torch.tensor([[1, 2, 3, 4, 5], [6, 0, 0, 0, 0]]), torch.tensor([[1.0], [0.0]])
    if kind == "by name":
        np.savez("x.npz", scale=scale, words=words)
    elif kind == "in order":
        np.savez("x.npz", words, scale)
    else:
        torch.save([words, scale] if kind == "list" else {"words": words, "scale": scale}, "x.pt")
    name = "x.pt" if kind in {"list", "dict"} else "x.npz"
    status, out, complaints = atalla_command(
        "run", blob, "--inputs", name, "--outputs", "y.npz", "--num-runs", "2", *isa
    )
    assert (status, complaints) == (0, ""), complaints
    assert "int64[2×5]    min 0, mean 2.1, max 6" in out
    with np.load("y.npz") as file:
        assert file["arr_0"].shape == (2, 3) and (file["arr_0"][1] == 0).all() and (file["arr_0"][0] != 0).all()
        assert (np.diff(file["arr_1"]) >= 0).all()


def test_random_words_are_in_the_table(atalla_command: Call, blob: str) -> None:
    for seed in range(10):
        status, out, _ = atalla_command("run", blob, "--seed", str(seed), "--num-runs", "1", "--threads", "2", "--json")
        document = json.loads(out)
        assert (
            status == 0
            and len(document["latency_ns"]) == len(document["processor_ns"]) == 1
            and document["threads"] == 2
        )
    profile = json.loads(atalla_command("run", blob, "--num-runs", "2", "--profile", "--json")[1])["profile"]
    assert [row["number"] for row in profile] == list(range(len(profile)))
    assert any(row["operation"] == "CALL_HOST aten.sort.default" for row in profile)
    assert all(row["median_ns"] > 0 for row in profile)


def test_without_kernels_the_command_says_so_in_one_line(
    atalla_command: Call, blob: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    _warn_once.cache_clear()
    monkeypatch.delenv("ATALLA_LIBRARY")
    monkeypatch.setattr(library, "LIBRARY", "never_built.so")
    status, out, complaints = atalla_command("run", blob, "--num-runs", "1")
    assert status == 0 and "words.atalla: reference, 1 thread" in out
    assert complaints.startswith("atalla run: the C kernels were not built") and len(complaints.splitlines()) == 1
    status, _, complaints = atalla_command("run", blob, "--profile")
    assert status == 2 and "--profile needs the C kernels" in complaints.splitlines()[-1]
    _warn_once.cache_clear()


WRONG = {
    "": (2, "arguments are required"),
    "compil x": (2, "invalid choice: 'compil'"),
    "compile": (2, "arguments are required: MODEL"),
    "compile mobilenet_v3_smal": (2, "did you mean mobilenet_v3_small?"),
    "compile gone.pt2": (2, "gone.pt2 does not exist"),
    "compile junk.pt2": (1, "junk.pt2 is no exported program"),
    "compile junk.pt2 --weights w.pt": (2, "--weights does not go with junk.pt2"),
    "compile gone.py:f": (2, "gone.py does not exist"),
    "compile no.such.package:f": (2, "there is no module no"),
    "compile net.py:word": (2, "net.py has no function word (did you mean words?)"),
    "compile net.py:fails": (1, "net.py:fails failed: ValueError: no such luck"),
    "compile net.py:nothing": (1, "net.py:nothing must give (module, inputs), not NoneType"),
    "compile net.py:branch": (1, "torch.export cannot capture net.py:branch"),
    "compile net.py:plain --weights gone.pt": (1, "the weights gone.pt do not fit"),
    "compile net.py:plain -o no/such/folder/m.atalla": (1, "no/such/folder/m.atalla: No such file or directory"),
    "disasm gone.atalla": (1, "gone.atalla: No such file or directory"),
    "disasm junk.pt2": (1, "no sound blob"),
    "info .": (1, ".: Is a directory"),
    "run junk.pt2": (1, "no sound blob"),
    "run words.atalla --num-runs 0": (2, "'0' is not a whole number of at least 1"),
    "run words.atalla --isa avx1024": (1, "no such instruction set"),
    "run words.atalla --inputs gone.npz": (1, "gone.npz: No such file or directory"),
    "run words.atalla --inputs x.txt": (2, "x.txt is neither .npz nor .pt"),
    "run words.atalla --inputs junk.npz": (1, "junk.npz cannot be read"),
    "run words.atalla --inputs other.npz": (1, "other.npz holds no input words"),
    "run words.atalla --inputs few.npz": (1, "1 inputs instead of 2"),
    "run words.atalla --inputs table.npz": (1, "an index is out of the table's bounds"),
    "run words.atalla --inputs shape.pt": (1, "input 1 (scale) has shape [1] instead of [2, 1]"),
    "run words.atalla --outputs y.csv": (2, "y.csv is neither .npz nor .pt"),
}


@pytest.mark.parametrize("line", WRONG)
@pytest.mark.usefixtures("blob")
def test_what_goes_wrong_is_one_line(atalla_command: Call, line: str) -> None:
    for name in ("junk.pt2", "junk.npz"):
        Path(name).write_bytes(b"PK and more than that, but nothing that anybody reads" * 3)
    np.savez("other.npz", scale=np.ones((2, 1), np.float32))
    np.savez("few.npz", np.ones((2, 1), np.float32))
    np.savez("table.npz", words=np.full((2, 5), 7), scale=np.ones((2, 1), np.float32))
    torch.save([torch.zeros(2, 5, dtype=torch.int64), torch.ones(1)], "shape.pt")
    status, told = WRONG[line]
    found, _, complaints = atalla_command(*line.split())
    assert found == status and told in complaints, complaints
    assert len(complaints.splitlines()) == 1 and complaints.startswith("atalla")


def test_support_tells_of_all_operators_and_of_one(atalla_command: Call) -> None:
    assert "aten.mm.default" in atalla_command("support")[1]
    one = json.loads(atalla_command("support", "slice.Tensor", "--json")[1])["operators"]
    assert [row["kind"] for row in one] == ["native"]
    assert one[0]["needs"] == ["Start and step must be known when the program is compiled"]
    assert atalla_command("support", "linalg_svd")[1].startswith("aten.linalg_svd.default: ")
    assert atalla_command("support", "nonsense") == (2, "", "atalla support: PyTorch has no operator nonsense\n")


@pytest.mark.slow
def test_a_file_of_ones_own_may_import_torchvision(tmp_path: Path) -> None:
    """Where torch is for CPUs and torchvision for CUDA: its operators do not load, and its import asks for them."""
    (tmp_path / "torchvision").mkdir()
    (tmp_path / "torchvision" / "_C.so").write_bytes(b"for another torch")
    asks = "import torch\ntorch.library.register_fake('torchvision::nms')(lambda dets, scores, iou_threshold: dets)\n"
    (tmp_path / "torchvision" / "__init__.py").write_text(asks)
    (tmp_path / "net.py").write_text(f"import torchvision\n{MODEL}")
    command = [sys.executable, "-m", "atalla", "compile", "net.py:plain", "-o", "m.atalla"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join((str(tmp_path), *sys.path[1:]))}
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env=environment, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / "m.atalla").exists()


@pytest.mark.parametrize("command", ["disasm", "info", "run"])
def test_what_a_blob_says_steers_no_terminal(atalla_command: Call, command: str) -> None:
    Path("m.atalla").write_bytes(calls.blob("aten.\x1b]0;owned\x07.default", [[], {}], (Dtype.F32, (3,))))
    status, out, complaints = atalla_command(command, "m.atalla")
    assert status == (1 if command == "run" else 0) and r"aten.\x1b]0;owned\x07.default" in out + complaints
    assert not {"\x1b", "\x07"} & set(out + complaints)


def test_a_blob_of_ones_own_may_call_custom_operators(atalla_command: Call) -> None:
    Path("m.atalla").write_bytes(calls.blob("gone.relu.default", [[calls.X], {}], (Dtype.F32, calls.SHAPE)))
    assert "which only a blob that you trust may (trust=True)" in atalla_command("run", "m.atalla")[2]
    assert "torch has no operator gone.relu.default" in atalla_command("run", "m.atalla", "--trust")[2]


def test_a_closed_pipe_is_no_error(blob: str) -> None:
    command = [sys.executable, "-m", "atalla", "disasm", blob]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0) as process:
        assert process.stdout is not None and process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == b""


def test_a_terminal_without_utf8_still_shows_listings(blob: str) -> None:
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    done = subprocess.run(
        [sys.executable, "-m", "atalla", "disasm", blob], capture_output=True, env=environment, check=False
    )
    assert (done.returncode, done.stderr) == (0, b"") and b"CALL_HOST" in done.stdout


@pytest.mark.parametrize("arguments", [["--help"], *([name, "--help"] for name in COMMANDS)], ids=" ".join)
def test_help_imports_nothing_heavy(run_python: Callable[..., str], arguments: list[str]) -> None:
    script = f"""
import sys
from atalla.cli import main
try:
    main({arguments!r})
except SystemExit as end:
    assert end.code == 0
print(sorted({{"torch", "numpy", "torchvision"}} & set(sys.modules)))
"""
    assert run_python(script).splitlines()[-1] == "[]"


def test_no_terminal_obeys_what_a_blob_holds(atalla_command: Call, blob: str) -> None:
    """Its names are a stranger's: escape sequences, returns, other directions, and lines that would look like ours."""
    data = bytearray(Path(blob).read_bytes())
    evil = ["\x1b[2J", "\x9b31m", "\r", "\u202e", "\nx", "\x00", "\u2028"]
    names = {row.name for row in parse(data).tensors} | {row.line for row in parse(data).instructions}
    at = sections(data)[b"STRT"][0]
    (count,) = struct.unpack_from("<I", data, at)
    ends = struct.unpack_from(f"<{count}I", data, at + 4)
    for number, (begin, end) in enumerate(zip((0, *ends), ends, strict=False)):
        place, letters = at + 4 + 4 * count + begin, evil[number % len(evil)].encode()
        if data[place : place + end - begin].decode() in names and len(letters) <= end - begin:
            data[place : place + len(letters)] = letters
    Path("evil.atalla").write_bytes(signed(data))
    for word, *options in (["disasm"], ["info"], ["run", "--num-runs", "1", "--profile"]):
        status, out, complaints = atalla_command(word, "evil.atalla", *options)
        assert status == 0, complaints
        assert all(line.isprintable() for line in (out + complaints).split("\n"))
        assert "\\x" in out or "\\u" in out, "they show"


@pytest.mark.usefixtures("blob")
def test_what_would_block_or_never_end_is_not_opened(atalla_command: Call) -> None:
    os.mkfifo("x")
    Path("x.npz").symlink_to("/dev/zero")
    for line in ("disasm x", "info x", "run x", "run words.atalla --inputs x.npz"):
        status, _, complaints = atalla_command(*line.split())
        assert status == 2 and f"{line.rpartition(' ')[2]} is not a file" in complaints


@pytest.mark.usefixtures("blob")
def test_inputs_that_unpack_to_a_thousandfold_are_refused(
    atalla_command: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("atalla.cli._tensors.MAX_PACKED_ZEROS", 1 << 20)
    np.savez_compressed("x.npz", words=np.zeros(4 << 20, np.int8))
    status, _, complaints = atalla_command("run", "words.atalla", "--inputs", "x.npz")
    assert status == 1 and "are too many for a file of its size" in complaints


def test_a_pt2_file_that_holds_code_is_opened_only_if_it_is_trusted(atalla_command: Call, tmp_path: Path) -> None:
    spied = tmp_path / "it-ran"

    class Spy:
        def __reduce__(self) -> Any:
            return Path.touch, (spied,)

    torch.export.save(torch.export.export(torch.nn.Linear(4, 2).eval(), (torch.ones(1, 4),)), tmp_path / "net.pt2")
    buffer = io.BytesIO()
    torch.save(((Spy(),), {}), buffer)
    with zipfile.ZipFile(tmp_path / "net.pt2") as old, zipfile.ZipFile(tmp_path / "evil.pt2", "w") as new:
        for name in old.namelist():
            new.writestr(name, buffer.getvalue() if "sample_inputs" in name else old.read(name))
    status, _, error = atalla_command("compile", str(tmp_path / "evil.pt2"))
    assert status == 1 and "pickled sample inputs, which is code" in error and "--trust" in error
    assert not spied.exists()
    atalla_command("compile", str(tmp_path / "evil.pt2"), "--trust")
    assert spied.exists()
