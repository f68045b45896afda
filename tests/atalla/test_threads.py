"""Threads: one loaded blob in several threads gives each what it would get alone."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

import atalla
from atalla.library import BUSY
from atalla.run import host
from atalla.run.kernels import Context, OpenBlob
from tests.atalla.nets import Call
from tests.atalla.test_compile import compiled, same

ISAS = pytest.mark.parametrize("isa", [None, "reference"])
PATIENCE_S = 0.3
"""How long a thread is given to do what it must not."""


def around(_: Call, x: torch.Tensor) -> torch.Tensor:
    """What is known before the call of the host is needed behind it."""
    y = x * 2 + 1
    return torch.sort(y.relu(), -1).values + y


@pytest.fixture(scope="module")
def blob() -> bytes:
    return atalla.compile(torch.export.export(Call(around), (torch.zeros(4, 5),))).data


class Meeting:
    """Calls of the host, of which the first waits until another thread was given time to run the same blob."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.inside, self.other_is_done, self.invoke = threading.Event(), threading.Event(), host.invoke
        monkeypatch.setattr(host, "invoke", self.called)

    def called(
        self, target: str, texts: str, operands: Sequence[object], outputs: Sequence[object], **more: bool
    ) -> None:
        if not self.inside.is_set():
            self.inside.set()
            self.other_is_done.wait(PATIENCE_S)
        self.invoke(target, texts, operands, outputs, **more)  # type: ignore[arg-type]


@ISAS
@pytest.mark.parametrize("is_bound", [False, True])
def test_a_run_is_not_disturbed_by_another_thread(
    blob: bytes, monkeypatch: pytest.MonkeyPatch, isa: str | None, is_bound: bool
) -> None:
    loaded, meeting = atalla.load(blob, isa=isa), Meeting(monkeypatch)
    first, second = torch.randn(4, 5), torch.randn(4, 5)

    def run(x: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = (loaded.bind((x,))() if is_bound else loaded.run((x,)))[0]
        return found

    def other() -> torch.Tensor:
        assert meeting.inside.wait(60)
        found = run(second)
        meeting.other_is_done.set()
        return found

    with ThreadPoolExecutor(2) as pool:
        found = pool.submit(run, first), pool.submit(other)
        same([one.result() for one in found], [around(Call(around), x) for x in (first, second)], 1e-6)


@pytest.mark.parametrize("threads", [2, 5])
def test_bits_stay_while_the_first_runs_try_what_threads_share(threads: int) -> None:
    """Thresholds are tried in turn, and the matrix, the sum and the picture lie between them."""

    def forward(m: Call, x: torch.Tensor, picture: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        y = m.wide(x)
        return m.back(torch.nn.functional.gelu(y) * 2 + y), m.picture(picture).mean((2, 3))

    torch.manual_seed(0)
    module = Call(
        forward, wide=torch.nn.Linear(48, 200), back=torch.nn.Linear(200, 48), picture=torch.nn.Conv2d(3, 24, 3)
    ).eval()
    given = torch.randn(30, 48), torch.randn(1, 3, 40, 40)
    blob = atalla.compile(torch.export.export(module, given)).data
    wanted, shared = atalla.load(blob).run(given), atalla.load(blob, threads=threads)
    for _ in range(40):
        assert all(map(torch.equal, shared.run(given), wanted))


@pytest.mark.parametrize("columns", [200, 256])
@pytest.mark.parametrize(("size", "stride"), [(14, 1), (31, 1), (16, 2)])
def test_bits_stay_where_threads_share_the_columns_of_a_few_tiles(columns: int, size: int, stride: int) -> None:
    """Winograd's 16 or 64 tiles are too few for blocks of their own: each thread makes some columns of all."""
    torch.manual_seed(0)
    module, given = torch.nn.Conv2d(256, columns, 3, stride, 1).eval(), torch.randn(1, 256, size, size)
    blob = atalla.compile(torch.export.export(module, (given,))).data
    alone = atalla.load(blob)
    assert [row.op.name for row in alone.listing.instructions].count("CONV2D_WINO") == 1
    wanted = alone.run((given,))[0]
    for threads in (2, 3, 7, 40):
        shared = atalla.load(blob, threads=threads)
        for _ in range(2):
            assert torch.equal(shared.run((given,))[0], wanted)


def test_a_context_refuses_a_second_run(blob: bytes) -> None:
    """In the C ABI, from the host that it calls: the same that another thread is told."""
    x, y, told = torch.randn(4, 5), torch.empty(4, 5), []

    def called(*_: object) -> None:
        for again in (lambda: context.run([x.data_ptr()], [y.data_ptr()]), context.reset):
            with pytest.raises(atalla.KernelError) as caught:
                again()
            told.append(caught.value.code)

    context = Context(OpenBlob(blob), host=called)
    context.run([x.data_ptr()], [y.data_ptr()])
    assert told == [BUSY, BUSY]
    context.run([x.data_ptr()], [y.data_ptr()])


@ISAS
def test_an_operator_that_runs_its_own_blob_is_refused(
    blob: bytes, monkeypatch: pytest.MonkeyPatch, isa: str | None
) -> None:
    loaded, x = atalla.load(blob, isa=isa), torch.randn(4, 5)
    monkeypatch.setattr(host, "invoke", lambda *_, **__: loaded.run((x,)))
    with pytest.raises(atalla.KernelError, match="running already: one call at a time"):
        loaded.run((x,))
    monkeypatch.undo()
    same(loaded.run((x,)), [around(Call(around), x)], 1e-6)


def test_several_threads_hammer_one_blob() -> None:
    made, inputs, _ = compiled("residual")
    loaded = atalla.load(made.data)
    given = [torch.randn_like(inputs[0]) for _ in range(3)]
    wanted = [loaded.run((x,))[0] for x in given]

    def hammer(number: int) -> int:
        return sum(not torch.equal(loaded.run((given[number],))[0], wanted[number]) for _ in range(150))

    with ThreadPoolExecutor(3) as pool:
        assert list(pool.map(hammer, range(3))) == [0, 0, 0]
