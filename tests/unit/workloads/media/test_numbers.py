"""Numbers: the ways they are written, what is refused, and that the answer is the model's."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cross_backend.errors import UsageError
from cross_backend.workloads import find_workload
from cross_backend.workloads.media import NumbersMedia

FOUR = NumbersMedia(names=("a", "b", "c", "d"), low=-1, high=1)


@pytest.mark.parametrize("text", ["1,2,3,4", " 1 2\n3\t4\n", "[1, 2.0, 3e0, 4]", "1, 2, 3, 4"])
def test_ways_to_write_them(text):
    (got,) = FOUR.prepare(text.encode())
    assert got.dtype == np.float32 and got.tolist() == [[1, 2, 3, 4]]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "is empty"), ("1,2,3", "holds 3 numbers, not 4"), ("1,2,3,x", "does not hold numbers"),
        ("1,2,3,nan", "not finite"), ("1,2,3,1e39", "not finite"), ("[1,2,[3],4]", "does not hold numbers"),
        ("[" * 10_000, "does not hold numbers"), ('{"a": 1}', "does not hold numbers"),
        ("\xff", "does not hold numbers"),
        ("[1,2,3,null]", "does not hold numbers"), ("[1,2,3," + "9" * 400 + "]", "does not hold numbers"),
    ],
)  # fmt: skip
def test_what_is_refused(text, words):
    with pytest.raises(UsageError, match=r"in\.txt") as caught:
        FOUR.prepare(text.encode("latin-1"), "in.txt")
    assert words in str(caught.value)


@given(st.binary(max_size=60))
def test_any_bytes_are_read_or_refused(data):
    try:
        (got,) = FOUR.prepare(data)
    except UsageError:
        return
    assert np.isfinite(got).all() and got.shape == (1, 4)


def test_the_regression_answers_with_a_number():
    import torch

    workload = find_workload("linear_regression").build()
    prepared = workload.media.prepare(b"1,2,3,4")
    with torch.no_grad():
        outputs = workload.model(torch.from_numpy(prepared[0])).numpy()
    shown = workload.media.present([outputs], prepared)
    assert shown.numbers == pytest.approx([2.7182], abs=1e-3) and len(workload.media.names) == 4
