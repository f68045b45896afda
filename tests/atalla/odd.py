"""Odd numbers: what networks are run with so that nothing undefined hides behind inputs that behave.

python -m tests.atalla.odd [GROUP…]

runs PyTorch's samples of every operator that Atalla has, or of some sixteenths of them, with such numbers, by all
kernels that this processor has; under ``ATALLA_LIBRARY``, which may be one that a sanitizer watches.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import torch

import atalla
from atalla.run import host
from tests.atalla.native import sets_here

if TYPE_CHECKING:
    from tests.atalla.evidence.cases import Case

FLOATS = (
    *(float("nan"), float("inf"), float("-inf"), -0.0, 0.0, -0.5, 0.5, -1.0, 1.0, 1e-45, -1e-45, 1e-39, 1.1754944e-38),
    *(3.4e38, -3.4e38, 88.8, -88.8, 2147483648.0, -2147483904.0, 9.3e18, -9.3e18, 12582912.0, 65520.0, 1e10),
)
WHOLES = (0, 1, -1, 2, -2, 3, 127, 128, -129, 32768, 65536, 2**31 - 1, -(2**31), 2**32, 2**62, 2**63 - 1, -(2**63))
BATCH = 12
"""Cases of one program."""


def odd(tensor: torch.Tensor, first: int = 0) -> torch.Tensor:
    """Give a tensor of the same kind, strides included, with odd numbers, which begin anywhere."""
    if tensor.dtype is torch.bool:
        return tensor
    numbers = FLOATS if tensor.dtype.is_floating_point else WHOLES
    count = max(tensor.numel(), 1)
    chosen = [numbers[(first + i) % len(numbers)] for i in range(count)][: tensor.numel()]
    wide = torch.tensor(chosen, dtype=torch.float64 if tensor.dtype.is_floating_point else torch.int64)
    made = torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype)
    return made.copy_(wide.to(tensor.dtype).view(tensor.shape))


def programs(cases: Sequence[Case]) -> Iterator[tuple[bytes, tuple[torch.Tensor, ...]]]:
    """Give blobs and their inputs; where many do not go into one, of each half."""
    from tests.atalla.evidence.judge import Batch

    module = Batch(cases)
    try:
        made = atalla.compile(torch.export.export(module, module.inputs(), strict=False), exact=True)
        yield made.data, module.inputs()
    except Exception:
        if len(cases) > 1:
            for part in (cases[: len(cases) // 2], cases[len(cases) // 2 :]):
                yield from programs(part)


def main(groups: Sequence[int]) -> None:
    """Run them; an index that is out of its table is an error, and all right."""
    from tests.atalla.test_evidence import GROUPS, some

    warnings.simplefilter("ignore")
    host.invoke = anything
    runs = 0
    for group in groups or range(GROUPS):
        found = some(group)
        for i in range(0, len(found), BATCH):
            for data, inputs in programs(found[i : i + BATCH]):
                for isa in sorted(sets_here()):
                    runs += runs_of(data, inputs, isa)
    print(runs)


def runs_of(data: bytes, inputs: Sequence[torch.Tensor], isa: str) -> int:
    """Run a blob with odd numbers in all inputs, and in those that are no indices; give how often it got to its end."""
    loaded, done = atalla.load(data, isa=isa), 0
    for first, wholes in ((0, True), (7, True), (11, False)):
        given = [odd(x, first + i) if wholes or x.dtype.is_floating_point else x for i, x in enumerate(inputs)]
        try:
            loaded.run(given)
        except atalla.KernelError:
            continue
        done += 1
    return done


def anything(_target: str, _texts: str, _operands: object, outputs: Sequence[torch.Tensor], **_: object) -> None:
    """Give odd numbers for what the host would compute: torch is not what is looked at."""
    for place in outputs:
        place.copy_(odd(place))


if __name__ == "__main__":
    main([int(one) for one in sys.argv[1:]])
