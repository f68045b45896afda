"""The debugger: it stops where one says, shows what is there, and finds the first instruction that is wrong."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest
import torch

import atalla
from atalla.blob.reader import parse
from atalla.cli import main
from atalla.device import DeviceOptions, Hardware
from atalla.errors import InputError
from atalla.isa import Op, Space
from atalla.run.debugger import Debugger
from tests.atalla.device import planted
from tests.atalla.int8_nets import floats, network, quantized
from tests.atalla.nets import NETS

PLANTED = "tests.atalla.device.planted"


class Two(torch.nn.Module):
    """Two products of int8, of depths 16 and 24."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("one", torch.randint(-127, 128, (24, 16)).to(torch.int8))
        self.register_buffer("two", torch.randint(-127, 128, (5, 24)).to(torch.int8))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.nn.functional.linear(floats(quantized(x)), floats(self.one, 0.01))
        return torch.nn.functional.linear(floats(quantized(y.relu())), floats(self.two, 0.01)).tanh()


def compiled(net: torch.nn.Module, *inputs: torch.Tensor) -> bytes:
    with torch.no_grad():
        return atalla.compile(torch.export.export(net.eval(), inputs)).data


@pytest.fixture(scope="module")
def blob() -> bytes:
    torch.manual_seed(0)
    found = compiled(Two(), torch.randn(7, 16))
    assert [row.op for row in parse(found).instructions].count(Op.QGEMM) == 2
    return found


def test_it_stops_anywhere_and_shows_what_is_there() -> None:
    torch.manual_seed(0)
    for name in ("squeeze", "transformer", "assigned"):
        net, inputs = NETS[name]()
        data = compiled(net, *inputs)
        wanted = atalla.load(data).run(inputs)
        debugger = Debugger(data, inputs, DeviceOptions(Hardware(scratchpad_bytes=32 << 10), poison=True))
        assert debugger.count == len(debugger.simulation.instructions) > 0
        for position in range(debugger.count + 1):
            assert debugger.go(position, compare=True) is None and debugger.position == position
            for number in debugger.written(position - 1) if position else ():
                debugger.tensor(number)
        for (kind, number), right in zip(debugger.listing.outputs, wanted, strict=True):
            assert kind != "tensor" or torch.equal(debugger.tensor(number), right)
        debugger.go(1)
        made = [number for later in range(1, debugger.count) for number in debugger.written(later)]
        roots = {debugger.listing.tensors[one].root for one in debugger.written(0)}
        refused = [
            number
            for number in made
            if debugger.listing.tensors[number].root not in roots
            and debugger.listing.tensors[debugger.listing.tensors[number].root].space is not Space.STATE
        ]
        for number in refused:
            with pytest.raises(InputError, match=r"nothing has written|another's since"):
                debugger.tensor(number)
        assert refused or name == "assigned"


def test_what_it_shows_underway_is_what_eager_has() -> None:
    class Chain(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.softmax(1).cumsum(0)

    x = torch.randn(4, 6)
    debugger = Debugger(compiled(Chain(), x), [x], DeviceOptions())
    debugger.go(1)
    torch.testing.assert_close(debugger.tensor(debugger.written(0)[0]), x.softmax(1))
    with pytest.raises(InputError, match="there is no tensor 999"):
        debugger.tensor(999)


def test_a_planted_fault_is_found_where_it_is(blob: bytes) -> None:
    inputs = [torch.randn(7, 16)]
    second = [i for i, row in enumerate(parse(blob).instructions) if row.op is Op.QGEMM][1]
    for against in ("fast", "reference"):
        right = Debugger(blob, inputs, DeviceOptions(unit=planted.right()), against=against)
        assert right.go(right.count, compare=True) is None and right.position == right.count
        debugger = Debugger(blob, inputs, DeviceOptions(unit=planted.wrong()), against=against)
        found = debugger.go(debugger.count, compare=True)
        assert found is not None and found.instruction == second and debugger.position == second + 1
        assert found.index == (6, 4) and found.count == 1 and found.found != found.wanted
        assert found.found_bits != found.wanted_bits
        assert debugger.tensor(found.tensor)[6, 4].item() == found.found


def test_a_quantised_network_is_right_everywhere() -> None:
    net, inputs = network()
    debugger = Debugger(compiled(net, *inputs), inputs, DeviceOptions(unit=planted.right()))
    assert debugger.go(debugger.count, compare=True) is None


def session(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(["debug", *arguments]) == 0
    return capsys.readouterr().out


def test_commands_come_through_a_pipe(
    blob: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "two.atalla"
    path.write_bytes(blob)
    commands = (
        "# a comment\nwhere\nbreak QGEMM\nrun\nstep tile\nstep tile\ntile 0\ncounters\nevents 0\nwatch 0x0\nrun\nrun\n"
        "nonsense\nstep x\ntensor 777\ngoto 99\nbreak 99\nbreak\nclear\nbreak\nhelp run\nquit\nstep\n"
    )
    monkeypatch.setattr("sys.stdin", io.StringIO(commands))
    text = session(capsys, str(path))
    assert "from test_debugger.py:" in text and "in forward" in text
    for expected in (
        "MXU.MM", "DMA.LD", "SPAD", "stalls: dma_in", "at the end: cycle", "there is no command 'nonsense'",
        "'step x' has an argument of another kind", "there is no tensor 777", "there is no instruction 99",
        "'99' is no instruction's number", "stops at: QGEMM\n", "stops at: nothing", "go on until a breakpoint",
    ):  # fmt: skip
        assert expected in text, expected
    assert text.count("before #") >= 3 and not text.endswith("(atalla) step\n")


def test_commands_come_from_a_file_and_find_the_fault(
    blob: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, script, inputs = tmp_path / "two.atalla", tmp_path / "session", tmp_path / "x.npz"
    path.write_bytes(blob)
    np.savez(inputs, torch.randn(7, 16).numpy())
    script.write_text("run\n")
    given = (str(path), "--inputs", str(inputs), "--break", "mismatch", "--run", str(script))
    text = session(capsys, *given, "--unit", f"{PLANTED}:wrong")
    assert "mismatch behind instruction" in text and "in 1 of 35 elements" in text and "first at [6, 4]" in text
    assert "from test_debugger.py:" in text and "is right" in text
    assert "mismatch behind" not in session(capsys, *given, "--unit", f"{PLANTED}:right")
    hardware = tmp_path / "small.toml"
    hardware.write_text("scratchpad_bytes = 32768\narray = 8\n")
    assert "on small, simulated" in session(capsys, *given, "--hardware", str(hardware))


def test_what_it_cannot_use_is_one_line(blob: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "two.atalla"
    path.write_bytes(blob)
    for arguments, expected in (
        (["--break", "FOO"], "--break FOO: it is an instruction's number"),
        (["--unit", "nowhere:at_all"], "--unit nowhere:at_all: ModuleNotFoundError"),
        (["--unit", "builtins:list"], "it returned no MatrixUnit"),
    ):
        assert main(["debug", str(path), *arguments]) == 2
        error = capsys.readouterr().err
        assert expected in error and error.count("\n") == 1


class Nothing(torch.nn.Module):
    """A program that computes nothing."""

    def forward(self, x: torch.Tensor) -> int:
        return 3


def test_a_program_without_instructions_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "nothing.atalla"
    path.write_bytes(compiled(Nothing(), torch.randn(2)))
    assert main(["debug", str(path)]) == 1
    assert capsys.readouterr().err.splitlines() == [
        "atalla debug: the program has no instructions: there is nothing to step through"
    ]
