"""The device gives the bits of the kernels, whatever its scratchpads, its arrays and the program."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

import atalla
from atalla.device import DeviceOptions, Hardware
from atalla.device.options import MatrixUnit
from atalla.device.structures import MATMUL
from atalla.errors import KernelError
from atalla.rtl.unit import CTile
from atalla.run.runtime import Loaded
from tests.atalla import bf16_programs, f32_programs, int8_nets, int8_programs
from tests.atalla.device.runs import KINDS, agree, bits
from tests.atalla.nets import NETS, some_quick
from tests.atalla.one_instruction import Given

MAKERS = (
    *f32_programs.MAKERS, bf16_programs.product, bf16_programs.convolution, int8_programs.product,
    int8_programs.convolution,
)  # fmt: skip


def _named(make: Callable[[int], Given]) -> str:
    return f"{make.__module__.rpartition('.')[2]}.{make.__name__}"


@pytest.mark.parametrize("make", MAKERS, ids=_named)
def test_products_have_the_bits_of_the_kernels(make: Callable[[int], Given]) -> None:
    for seed in range(7):
        blob, inputs, _ = make(seed)
        agree(blob, inputs, seed)


@pytest.mark.slow
@pytest.mark.parametrize("make", [*MAKERS, *int8_programs.MAKERS[2:]], ids=_named)
def test_many_programs_have_the_bits_of_the_kernels(make: Callable[[int], Given]) -> None:
    for seed in range(100, 120):
        blob, inputs, _ = make(seed)
        agree(blob, inputs, seed)


@pytest.mark.parametrize("name", some_quick())
def test_networks_have_the_bits_of_the_kernels(name: str) -> None:
    torch.manual_seed(0)
    net, inputs = NETS[name]()
    with torch.no_grad():
        blob = atalla.compile(torch.export.export(net, inputs)).data
    agree(blob, inputs, name, kinds=KINDS[1:3])


def test_a_quantised_network_has_the_bits_of_the_kernels() -> None:
    net, inputs = int8_nets.network()
    with torch.no_grad():
        blob = atalla.compile(torch.export.export(net, inputs)).data
    agree(blob, inputs, "int8")


@pytest.mark.parametrize("kind", ["int8", "bf16"])
def test_another_matrix_unit_takes_the_place_of_the_simulators(kind: str) -> None:
    """A unit that takes whole tiles as hardware does, through the ABI, gives the same bits; a wrong one other bits."""
    blob, inputs, _ = (int8_programs if kind == "int8" else bf16_programs).product(3)
    wanted = atalla.load(blob, executor="device").run(inputs)
    calls: list[tuple[int, int, int]] = []

    def multiply(_: int | None, address: int, error: int = 0) -> int:
        tile = ctypes.cast(address, ctypes.POINTER(CTile)).contents
        calls.append((tile.m, tile.k, tile.n))
        size, number = (1, torch.int8) if kind == "int8" else (2, torch.bfloat16)
        a = _matrix(tile.a, (tile.m, tile.k), (tile.a_stride, 1), number, size)
        b = _matrix(tile.b, (tile.k, tile.n), (tile.b_row_stride, tile.b_column_stride), number, size)
        sums = _matrix(
            tile.sums, (tile.m, tile.n), (tile.sums_stride, 1), torch.int32 if size == 1 else torch.float32, 4
        )
        if not tile.accumulate:
            sums.zero_()
        if kind == "int8":
            sums += (a.long() @ b.long()).int() + error
        else:
            for first in range(0, tile.k, 32):
                parts = [torch.zeros(tile.m, tile.n), torch.zeros(tile.m, tile.n)]
                for k in range(first, min(first + 32, tile.k)):
                    product = a[:, k, None].double() * b[None, k].double()
                    parts[k % 2] = _normal((parts[k % 2].double() + product).float())
                sums.copy_(_normal(_normal(sums) + _normal(parts[0] + parts[1])) + error)
        tile.compute_edges = 5
        return 0

    right, wrong = MATMUL(multiply), MATMUL(lambda unit, address: multiply(unit, address, 1))
    loaded = Loaded(blob, device=DeviceOptions(unit=MatrixUnit(**{kind: right})))
    assert torch.equal(bits(loaded.run(inputs)[0]), bits(wanted[0]))
    simulation = loaded.simulation
    assert calls and simulation is not None and simulation.instructions[0].unit_edges == 5 * len(calls)
    found = Loaded(blob, device=DeviceOptions(unit=MatrixUnit(**{kind: wrong}))).run(inputs)
    assert not torch.equal(bits(found[0]), bits(wanted[0]))


def _normal(x: torch.Tensor) -> torch.Tensor:
    return x.where(~(x.abs() < 2.0**-126), x * 0.0)


def _matrix(
    address: int, shape: tuple[int, int], strides: tuple[int, int], dtype: torch.dtype, size: int
) -> torch.Tensor:
    reach = (shape[0] - 1) * strides[0] + (shape[1] - 1) * strides[1] + 1
    buffer = (ctypes.c_char * (reach * size)).from_address(address)
    return torch.frombuffer(buffer, dtype=dtype).as_strided(shape, strides)


def test_a_matrix_unit_that_fails_ends_the_run() -> None:
    blob, inputs, _ = int8_programs.product(3)
    broken = MATMUL(lambda unit, address: 1)
    with pytest.raises(KernelError, match="status 4"):
        Loaded(blob, device=DeviceOptions(unit=MatrixUnit(int8=broken))).run(inputs)


def test_a_device_keeps_what_a_program_changes_and_runs_it_again(tmp_path: Path) -> None:
    torch.manual_seed(0)
    net, inputs = NETS["fallback"]()
    with torch.no_grad():
        (tmp_path / "blob").write_bytes(atalla.compile(torch.export.export(net, inputs)).data)
    loaded = atalla.load(tmp_path / "blob", executor="device", hardware=Hardware(array=8))
    first = [bits(one).clone() for one in loaded.run(inputs)]
    assert all(torch.equal(one, bits(two)) for one, two in zip(first, loaded.run(inputs), strict=True))
    assert loaded.simulation is not None and loaded.simulation.calls_host
