"""Load: from a file that is mapped or from bytes of any kind; constants are looked at where it is asked for."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import nn

import atalla
from atalla.isa import Verdict
from tests.atalla.test_compile import compiled, same
from tests.atalla.test_verify import sections

ISAS = pytest.mark.parametrize("isa", [None, "reference"])


@ISAS
@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview, lambda data: memoryview(bytearray(data))])
def test_bytes_of_any_kind(kind: Callable[[bytes], object], isa: str | None) -> None:
    made, inputs, wanted = compiled("residual")
    same(atalla.load(kind(made.data), isa=isa).run(inputs), wanted, 2e-5)


@ISAS
def test_a_file_is_mapped_and_stays_as_it_is(tmp_path: Path, isa: str | None) -> None:
    made, inputs, wanted = compiled("residual")
    path = tmp_path / "net.atalla"
    path.write_bytes(made.data)
    loaded = atalla.load(path, isa=isa, verify_constants=True)
    same(loaded.run(inputs), wanted, 2e-5)
    same(atalla.load(str(path), isa=isa).run(inputs), wanted, 2e-5)
    assert path.read_bytes() == made.data


@ISAS
def test_a_file_that_is_no_blob(tmp_path: Path, isa: str | None) -> None:
    path = tmp_path / "net.atalla"
    for data in (b"", b"ATLB", compiled("mlp")[0].data[:-1], b"\0" * 4096):
        path.write_bytes(data)
        with pytest.raises(atalla.BlobError):
            atalla.load(path, isa=isa)
    with pytest.raises(FileNotFoundError):
        atalla.load(tmp_path / "other", isa=isa)


@ISAS
def test_damaged_constants_are_found_where_they_are_looked_at(isa: str | None) -> None:
    made, inputs, _ = compiled("mlp")
    damaged = bytearray(made.data)
    at, size = sections(damaged)[b"CNST"]
    damaged[at + size // 2] ^= 0x41
    atalla.load(bytes(damaged), isa=isa).run(inputs)
    with pytest.raises(atalla.BlobError, match="checksum") as found:
        atalla.load(bytes(damaged), isa=isa, verify_constants=True)
    assert found.value.code == Verdict.CHECKSUM


@ISAS
def test_damaged_constants_that_are_indices_end_the_run(isa: str | None) -> None:
    class Picks(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("places", torch.tensor([2, 0, 1]))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.index_select(x, 0, self.places)

    x = torch.randn(4, 3)
    data = bytearray(atalla.compile(torch.export.export(Picks(), (x,))).data)
    torch.testing.assert_close(atalla.load(bytes(data), isa=isa).run((x,))[0], x[[2, 0, 1]])
    at, _ = sections(data)[b"CNST"]
    for index in (4, -1, 1 << 62):
        data[at : at + 8] = index.to_bytes(8, "little", signed=True)
        with pytest.raises(atalla.KernelError, match="out of the table"):
            atalla.load(bytes(data), isa=isa).run((x,))
