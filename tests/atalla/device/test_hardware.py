"""Hardware: files of it, nonsense in them, and programs that do not fit."""

from __future__ import annotations

import ctypes
import json
import os
import re
from pathlib import Path

import pytest
import torch

import atalla
from atalla import ir
from atalla.cli import main
from atalla.device import Hardware, read_hardware
from atalla.device.hardware import BOUNDS
from atalla.errors import InputError, KernelError
from atalla.isa import Dtype, Op
from atalla.library import TOO_SMALL, library, new_error
from atalla.run.device import DryProgram, simulate
from tests.atalla import f32_programs, one_instruction
from tests.atalla.nets import NETS


@pytest.mark.parametrize("field", BOUNDS)
def test_c_and_python_refuse_the_same(field: str) -> None:
    least, most = BOUNDS[field]
    for value in (least - 1, most + 1):
        with pytest.raises(InputError, match=f"^{field} is {value}"):
            Hardware(**{field: value})
        if value < 0:
            continue
        structure, error = Hardware().structure(), new_error()
        if field.startswith("vector_") and field.endswith("_cycles"):
            structure.vector_cycles[("simple", "divide", "exp", "requantise").index(field.split("_")[1])] = value
        else:
            setattr(structure, field, value)
        assert library().atalla_hardware_check(ctypes.byref(structure), ctypes.byref(error))
        assert error.text.decode().startswith(f"{field} is {value}")


def test_c_and_python_have_the_same_usual_hardware() -> None:
    made = Hardware().structure()
    usual = type(made)(struct_size=ctypes.sizeof(made))
    assert library().atalla_hardware_default(ctypes.byref(usual)) == 0
    assert bytes(usual) == bytes(made)


def test_files_of_both_kinds(tmp_path: Path) -> None:
    wanted = Hardware(name="chip", array=16, scratchpad_bytes=64 << 10)
    (tmp_path / "chip.toml").write_text("array = 16\nscratchpad_bytes = 65_536\n")
    (tmp_path / "other.json").write_text(json.dumps(wanted.document()))
    assert read_hardware(tmp_path / "chip.toml") == wanted == read_hardware(tmp_path / "other.json")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("array = 16\nlanes = 0\n", r"bad\.toml, line 2: lanes is 0: it is 1 to 4096"),
        ("array = 24\n", r"line 1: array is 24: it is 8, 16, 32 or 64"),
        ('banks = "many"\n', r"line 1: banks is 'many': it is a whole number"),
        ("queue = true\n", "line 1: queue is True: it is a whole number"),
        ("\nscratchpad_bytes = 33000\n", "line 2: scratchpad_bytes is 33000: it is a multiple"),
        ("vector_int8_factor = 3\n", "line 1: vector_int8_factor is 3: it is 1, 2 or 4"),
        ("align = 48\n", "align is 48: it is a power of two"),
        ("sparkles = 3\n", "line 1: there is no field 'sparkles'; there are accumulator_rows"),
        ("array = \n", r"bad\.toml is no TOML.*line 1"),
        ("name = 3\n", "name is 3: it is a text"),
        (f"array = 0x{'f' * 5000}\n", "line 1: array is a number of thousands of digits: it is 8 to 64"),
        (f"lanes = '{'x' * 20_000}'\n", r"line 1: lanes is 'x+\.\.\.x+': it is a whole number"),
        ("# " + "x" * 70_000, r"bad\.toml is longer than 64 KiB"),
    ],
)
def test_nonsense_names_line_and_reason(text: str, reason: str, tmp_path: Path) -> None:
    (tmp_path / "bad.toml").write_text(text)
    with pytest.raises(InputError, match=reason):
        read_hardware(tmp_path / "bad.toml")


@pytest.mark.parametrize("path", ["/dev/zero", "pipe"])
def test_what_never_ends_is_no_hardware(path: str, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InputError, match="is not a file"):
        read_hardware(tmp_path / path)


@pytest.mark.parametrize("text", ["[1]", "{", "\xff"])
def test_nonsense_in_json(text: str, tmp_path: Path) -> None:
    (tmp_path / "bad.json").write_bytes(text.encode("latin-1"))
    with pytest.raises(InputError, match=r"bad\.json is no"):
        read_hardware(tmp_path / "bad.json")


def test_what_does_not_fit_names_the_smallest_that_does() -> None:
    """Rows of a softmax are not cut: a long one needs a large scratchpad."""
    src = one_instruction.given("x", Dtype.F32, (2, 20_000))
    dst = one_instruction.result(Dtype.F32, (2, 20_000))
    step = ir.Instruction(Op.SOFTMAX, dst, (src,), {"axis": 1, "log": 0})
    x = torch.randn(2, 20_000)
    blob, inputs, _ = one_instruction.program(step, [src], [x])
    with pytest.raises(KernelError, match=r"instruction 0 \(SOFTMAX\) does not fit") as caught:
        simulate(blob, Hardware(scratchpad_bytes=64 << 10))
    assert caught.value.code == TOO_SMALL
    smallest = int(re.findall(r"has (\d+) bytes", str(caught.value))[0])
    with pytest.raises(KernelError, match="does not fit"):
        simulate(blob, Hardware(scratchpad_bytes=smallest - 2048))
    loaded = atalla.load(blob, executor="device", hardware=Hardware(scratchpad_bytes=smallest))
    assert torch.equal(loaded.run(inputs)[0], atalla.load(blob).run(inputs)[0])


def test_memory_has_addresses_of_32_bits() -> None:
    src = one_instruction.given("x", Dtype.F32, (1 << 15, 1 << 15))
    dst = one_instruction.result(Dtype.F32, (1 << 15, 1 << 15))
    program = ir.Program([src], [dst], [ir.Instruction(Op.COPY, dst, (src,))])
    blob = one_instruction.encode(program, {"producer": "tests"}, one_instruction.plan_arena(program), None)
    with pytest.raises(KernelError, match=r"needs 85899\d+ bytes of memory: .* 32 bits") as caught:
        DryProgram(blob).simulate(Hardware())
    assert caught.value.code == TOO_SMALL


def test_options_of_the_version_before_are_taken() -> None:
    """A smaller structure, as programs were compiled with, still runs by the kernels."""
    from atalla.library import COptions
    from atalla.run.kernels import OpenBlob

    blob = OpenBlob(f32_programs.product(0)[0])
    for size, status in ((COptions.hardware.offset, 0), (COptions.hardware.offset - 1, 2)):
        options, handle = (
            COptions(struct_size=size, threads=1, hardware=1),
            ctypes.c_void_p(),
        )  # nobody reads `hardware`
        assert library().atalla_context_new(blob.handle, ctypes.byref(options), ctypes.byref(handle), None) == status
        if handle:
            assert library().atalla_device_counters(handle, None, ctypes.c_size_t(0)) == 0
            library().atalla_context_free(handle)


def test_the_command_runs_on_a_device(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    torch.manual_seed(0)
    net, inputs = NETS["squeeze"]()
    with torch.no_grad():
        (tmp_path / "a.atl").write_bytes(atalla.compile(torch.export.export(net, inputs)).data)
    (tmp_path / "chip.toml").write_text("clock_mhz = 500\n")
    command = ["run", str(tmp_path / "a.atl"), "--executor", "device", "--hardware", str(tmp_path / "chip.toml")]
    assert main(command) == 0
    text = capsys.readouterr().out
    assert re.search(r"simulated: [\d,]+ cycles, an estimate of [\d.]+ ms at 500 MHz", text)
    assert "DWCONV2D" in text and "chip, simulated" in text
    assert main([*command, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["simulated"] and found["cycles"] == sum(row["cycles"] for row in found["instructions"]) > 0
    assert found["estimated_ms"] == found["cycles"] / 500_000
    assert main([*command, "--profile"]) == 2
    assert main([*command[:2], "--hardware", str(tmp_path / "chip.toml")]) == 2
    (tmp_path / "chip.toml").write_text("clock_mhz = 0\n")
    assert main(command) == 1
    assert "chip.toml, line 1: clock_mhz is 0" in capsys.readouterr().err
