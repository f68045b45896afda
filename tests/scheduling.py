"""Scheduling: which tests stay in one process, and which groups come first, so that no process idles at the end."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Any

from xdist.scheduler import LoadGroupScheduling

from cross_backend.registry import rows
from tests import durations

if TYPE_CHECKING:
    from xdist.workermanage import WorkerController

UNKNOWN_S = {"tests/e2e/": 2.0, "tests/conformance/": 1.0, "tests/packaging/": 2.0, "": 0.1}
"""Seconds of a test that was not seen yet, by where it lies."""

ONE_PROCESS = ("tests/e2e/runner/", "tests/packaging/")
"""Folders whose tests share what takes minutes to build."""


class ByGroup(LoadGroupScheduling):
    """Keeps the tests of a vendor, of the runner, and else of a file in one process: what it imports, compiles and
    makes for them is done once. Groups are given out longest first.

    Groups are what ``xdist_group`` and ``--dist loadgroup`` are for, but pytest-xdist 3.8 writes the group into a
    private field that pytest 9.2 no longer reads; so the group is read from the test's own name.
    """

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._is_sorted = False

    def _split_scope(self, nodeid: str) -> str:
        file, _, test = nodeid.partition("::")
        for folder in ONE_PROCESS:
            if file.startswith(folder):
                return folder
        first = test.rpartition("[")[2].rstrip("]").split("-")[0]
        return first.partition(".")[0] if file.startswith("tests/conformance/") and first in rows() else file

    def _assign_work_unit(self, node: WorkerController) -> None:
        if not self._is_sorted:
            known = durations.read()
            self.workqueue = OrderedDict(
                sorted(self.workqueue.items(), key=lambda row: -sum(_seconds(test, known) for test in row[1]))
            )
            self._is_sorted = True
        super()._assign_work_unit(node)


def _seconds(nodeid: str, known: dict[str, float]) -> float:
    guess = next(seconds for folder, seconds in UNKNOWN_S.items() if nodeid.startswith(folder))
    return known.get(nodeid, guess)
