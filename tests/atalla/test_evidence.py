"""Evidence, in small: some of PyTorch's samples of every operator that Atalla has, and what the kept table claims."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
import torch

from atalla.passes.rules import all_rules
from tests.atalla.evidence.table import TABLE

if TYPE_CHECKING:
    from tests.atalla.evidence.cases import Case

DTYPES = (torch.float32, torch.int64)
GROUPS = 16
BATCH = 120
NETS = (
    "_unsafe_view.default", "clamp_max.default", "detach.default", "max_pool2d.default",
)  # fmt: skip
OWN = (
    *("instance_norm.default", "_native_batch_norm_legit.no_stats"),
    *("max_pool2d_with_indices.default", "max_pool3d_with_indices.default", "adaptive_max_pool3d.default"),
    *("median.dim", "upsample_nearest3d.vec", "_upsample_nearest_exact3d.vec", "scatter.value"),
    "_unsafe_index_put.default",
)
"""Those that tests of their own have: PyTorch's samples ask for the places of what is the largest, too, or are few."""
UNSHOWN = {
    f"aten.{name}"
    for name in (
        *NETS,  # tests/atalla/nets.py and test_models.py have them
        *OWN,
        *(f"{name}.Scalar" for name in ("bitwise_and", "bitwise_or", "bitwise_xor", "where")),
        *("div.Scalar_mode", "where.ScalarOther", "where.ScalarSelf"),  # the rules of tensors, with a number
        *("_softmax.default", "_log_softmax.default"),  # what softmax is taken apart into where it is not kept
        *("_assert_scalar.default", "_assert_tensor_metadata.default"),  # nothing is done
        "_to_dim_order_copy.default",  # ExecuTorch's _to_copy
        *("sym_constrain_range.default", "sym_constrain_range_for_size.default"),  # nothing is done, either
    )
}
"""Overloads that no sample of PyTorch's shows; their number only goes down."""


def kept() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(TABLE.read_text())
    return found


def some(group: int) -> list[Case]:
    """Give one sample of each element type, float32 in all layouts, of every so many-th operator."""
    # PyTorch's samples take seconds to import, and freeze its flags: not where these tests are only collected.
    from tests.atalla.evidence.cases import cases, is_claimed, operators

    claimed = [(name, op) for name, op in sorted(operators().items()) if is_claimed(op)]
    return [case for name, op in claimed[group::GROUPS] for case in cases(name, op, samples=1, others=1, dtypes=DTYPES)]


@pytest.mark.slow
@pytest.mark.parametrize("group", [0, *(pytest.param(group, marks=pytest.mark.slow) for group in range(1, GROUPS))])
def test_samples_give_what_eager_gives_as_the_table_says(group: int) -> None:
    from tests.atalla.evidence.judge import judge

    table, found = kept()["overloads"], some(group)
    judged = [one for i in range(0, len(found), BATCH) for one in judge(found[i : i + BATCH])]
    assert len(judged) == len(found) > 20
    for one in judged:
        case = one.case
        where = f"{case.operator} {case.dtype} {case.layout} {[tuple(t.shape) for t in case.tensors]}: {one.reason}"
        assert one.verdict != "wrong", where
        for overload, kind in one.overloads.items():
            assert kind in table[overload][case.dtype], f"{where}: {overload} is {kind}"


def test_the_table_claims_what_was_shown() -> None:
    """A rule counts where a sample with its operator ran without the host, and none went wrong."""
    table = kept()["overloads"]
    wrong = [(name, dtype) for name, found in table.items() for dtype, counts in found.items() if "wrong" in counts]
    assert not wrong
    shown = {
        name for name, found in table.items() if any({"native", "decomposed"} & set(one) for one in found.values())
    }
    of_torch = {name for name in all_rules() if name.startswith("aten.")}  # the others are shown by test_int8
    assert of_torch - shown == UNSHOWN
