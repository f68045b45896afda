"""Widths: at 60 to 120 columns no command breaks a word, and no line is wider than the terminal."""

import re
from pathlib import Path
from typing import ClassVar

import pytest
from rich.cells import cell_len

from cross_backend import cli
from cross_backend.report import terminal as terminals
from tests.unit.report.streams import streams

ROOT = Path(__file__).parents[2]
WIDTHS = (60, 80, 100, 120)
STUDY = """name: widths
workloads: [linear_regression]
targets: [torch, cpu, 'cpu?threads=1', vulkan, mps, 'xnnpack?precision=int8']
batch_sizes: [1]
settings: {launches: 1, seconds: 0.2, instruments: [memory]}
"""
NET = """import torch

class Sums(torch.nn.Module):
    def forward(self, x):
        return torch.nn.functional.silu(x @ x.T).cumsum(dim=1).sort().values

def sums():
    return Sums(), (torch.rand(4, 4),)

class Resizes(torch.nn.Module):
    def forward(self, x):
        return torch.nn.functional.interpolate(x * 2, size=(64, 64), mode="nearest").exp()

def resizes():
    return Resizes(), (torch.rand(1, 1, 26, 26),)
"""
COMMANDS = (
    ("backends",),
    ("backends", "--why"),
    ("backends", "rocm", "xnnpack", "vulkan"),
    ("models",),
    ("toolchain", "list"),
    ("export", "linear_regression", "--backends", "xnnpack", "portable", "onnxruntime", "vulkan", "qnn"),
    ("inspect", "models/linear_regression_xnnpack.pte"),
    ("run", "models/linear_regression_portable.pte", "--num-runs", "30", "--profile"),
    ("explain", "net.py:sums", "--backend", "xnnpack"),
    ("localize", "net.py:resizes", "--backend", "openvino"),
    ("localize", "net.py:resizes", "--backend", "openvino", "--keep-out", "upsample_nearest2d", "--against", "eager"),
    ("bundle", "linear_regression", "--platform", "android", "desktop"),
    ("inspect", "bundles/linear_regression"),
    ("compare", "linear_regression", "--num-runs", "12", "--launches", "1"),
    ("compare", "linear_regression", "--num-runs", "12", "--launches", "1", "--platform", "android"),
    ("tune", "linear_regression", "--backends", "cpu", "vulkan", "--launches", "1", "--db", "t.sqlite"),
    ("tune", "linear_regression", "--backends", "cpu", "--max-size", "1kB", "--db", "t.sqlite"),
    ("matrix", "linear_regression", "--backends", "cpu", "mps", "xnnpack", "--seconds", "0.3", "--db", "m.sqlite"),
    ("study", "run", "study.yaml", "--dry-run", "--db", "widths.sqlite"),
    ("study", "run", "study.yaml", "--db", "widths.sqlite"),
    ("study", "status", "--db", "widths.sqlite"),
    ("study", "report", "widths", "--db", "widths.sqlite"),
    ("study", "diff", "1", "1", "--db", "widths.sqlite"),
    ("study", "export", "widths", "samples.csv", "--db", "widths.sqlite"),
)
OTHERWISE = {
    "doctor": "tests/e2e/test_cli_basics.py",
    "node": "prints one line of JSON, or joins Ray",
    "serve": "prints an address",
    "toolchain add": "prints what pip does",
}


class Recorded(terminals.Terminal):
    """Keeps what a command prints, to print it again at another width."""

    calls: ClassVar = []

    def text(self, line="", style=None):
        self.calls.append(("text", (line, style)))

    def table(self, headers, rows, right=(), whole=(), also=()):
        self.calls.append(("table", (headers, list(rows), list(right), list(whole), also)))

    def note(self, line):
        self.calls.append(("text", (line,)))


@pytest.fixture(scope="module")
def printed(tmp_path_factory):
    """Run every command once, and give what each printed."""
    folder = tmp_path_factory.mktemp("widths")
    (folder / "study.yaml").write_text(STUDY)
    (folder / "net.py").write_text(NET)
    found = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setattr(terminals, "Terminal", Recorded)
        for command in COMMANDS:
            Recorded.calls = []
            status = cli.main(command)
            assert status in {0, 1} and Recorded.calls, command
            found[command] = Recorded.calls
    return found


def shown(calls, width, monkeypatch, *, tty):
    """Print again."""
    out, _ = streams(monkeypatch, tty=tty)
    monkeypatch.setenv("COLUMNS", str(width))
    again = terminals.Terminal(width=width)
    for method, arguments in calls:
        getattr(again, method)(*arguments)
    return re.sub(r"\x1b\[[0-9;]*m", "", out.text)


@pytest.mark.slow  # it runs every command
@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
@pytest.mark.parametrize("tty", [True, False], ids=["terminal", "pipe"])
def test_no_word_is_broken_and_no_line_too_wide(command, tty, printed, monkeypatch):
    calls = printed[command]
    words = set(shown(calls, 5000, monkeypatch, tty=tty).split())
    for width in WIDTHS:
        text = shown(calls, width, monkeypatch, tty=tty)
        broken = [word for word in text.split() if not {word, word.removesuffix(":")} & words]
        assert broken == [], f"{width} columns:\n{text}"
        for line in text.splitlines():
            alone = len(line.split()) <= 1  # a path that is longer has a line of its own
            assert cell_len(line.rstrip()) <= width or alone, f"{width} columns: {line!r}"


@pytest.mark.parametrize("command", [(), *((name,) for name in cli.COMMANDS), *(("study", a) for a in ("run", "diff"))])
@pytest.mark.parametrize("width", WIDTHS)
def test_help_fits(command, width, monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", str(width))
    with pytest.raises(SystemExit):
        cli.main([*command, "--help"])
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if cell_len(line) > width] == []


def test_every_command_of_the_documents_is_here():
    tested = {" ".join(command[:2] if command[0] in {"study", "toolchain"} else command[:1]) for command in COMMANDS}
    texts = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    named = set()
    for path in texts:
        for name, action in re.findall(r"cross-backend ([a-z]+)(?: ([a-z]+))?", path.read_text(encoding="utf-8")):
            if name in cli.COMMANDS:
                named.add(f"{name} {action}" if name in {"study", "toolchain"} and action else name)
    assert named - {"study", "toolchain"} - tested - OTHERWISE.keys() == set()
