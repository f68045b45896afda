"""The profile of a ``.pte``: the runtime's ETDump, read by ExecuTorch's own Inspector."""

from __future__ import annotations

import re
import tempfile
import warnings
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cross_backend.errors import RunError, UnavailableError, UnsupportedError, failing_as, one_line
from cross_backend.records import Timing
from cross_backend.tensors import Tensors

if TYPE_CHECKING:
    from cross_backend.backends.executorch._pte import PteSession

# What the runtime calls its events (runtime/executor/method.cpp, codegen's kernel wrappers).
_RUN, _KERNEL, _DELEGATE = "Method::execute", "OPERATOR_CALL", "DELEGATE_CALL"
_NATIVE = "native_call_"
_NUMBER = re.compile(r" #\d+$")
"""Delegates number operators of one kind: ``Convolution (NHWC, F32) IGEMM #41``."""


def record(session: PteSession, inputs: Tensors, runs: int) -> list[list[Timing]]:
    """Run a session that is not open yet, and return what the runtime recorded.

    Raises:
        UnsupportedError: this runtime records nothing.
        UnavailableError: the Inspector's packages are missing.
    """
    _inspector()
    session.records_events = True
    with tempfile.TemporaryDirectory() as folder, session:
        run = session.bind(inputs)
        for _ in range(runs + 1):
            run()
        etdump = Path(folder) / "etdump.etdp"
        if not session.program.has_etdump():
            raise UnsupportedError("this ExecuTorch runtime is built without ETDump.")
        with failing_as(RunError, "ExecuTorch cannot write its profile"):
            session.program.write_etdump_result_to_file(str(etdump))
        names = list(session.artifact.placement.delegates)
        recorded = read_etdump(etdump, names[0] if len(names) == 1 else _DELEGATE)
    return recorded[1:]


def read_etdump(path: Path, delegate: str) -> list[list[Timing]]:
    """Return the rows of every run in an ETDump; what stands in it is the program's, which may be anybody's.

    Raises:
        RunError: it is damaged, or says what no runtime records.
        UnavailableError: the Inspector's packages are missing.
    """
    inspector = _inspector()
    with failing_as(RunError, "ExecuTorch's Inspector cannot read its profile"), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Output Buffer not found")  # outputs were not to be recorded
        return [run for block in inspector(etdump_path=str(path)).event_blocks for run in _runs(block.events, delegate)]


def _inspector() -> Any:
    try:
        from executorch.devtools import Inspector
    except ImportError as error:
        raise UnavailableError(
            f"ExecuTorch's Inspector does not import ({one_line(error)})", "pip install pandas tabulate"
        ) from error
    return Inspector


def _runs(events: Iterable[Any], delegate: str) -> Iterator[list[Timing]]:
    """Return the rows of every run; the Inspector's events have one duration per run, in milliseconds."""
    events = [event for event in events if event.perf_data is not None]
    whole = next((event for event in events if event.name == _RUN), None)
    if whole is None:
        return  # the block of loading
    for index in range(len(whole.perf_data.raw)):
        told: dict[int, float] = {}
        rows: list[Timing] = []
        for event in events:
            if event.name not in {_RUN, _KERNEL, _DELEGATE}:
                ms = float(event.perf_data.raw[index])
                told[event._instruction_id] = told.get(event._instruction_id, 0.0) + ms
                kind = "delegated" if event.is_delegated_op else "operator"
                rows.append(Timing(_NUMBER.sub("", event.name.removeprefix(_NATIVE)), kind, 1, ms))
        for event in events:
            rest = float(event.perf_data.raw[index]) - told.get(event._instruction_id, 0.0)
            if event.name == _DELEGATE:
                rows.append(Timing(delegate, "delegate", 1, max(rest, 0.0)))
            elif event.name == _KERNEL and event._instruction_id not in told:  # a kernel that does not report its name
                rows.append(Timing(_KERNEL, "operator", 1, rest))
        yield rows
