"""Print how each of the small networks and files ends on each target: make cases."""

from __future__ import annotations

import sys
import tempfile
import warnings
from pathlib import Path

from cross_backend.cache import Cache
from cross_backend.errors import CrossBackendError
from cross_backend.lowering.lower import lower
from cross_backend.program.writing import write_capture
from cross_backend.registry import resolve
from cross_backend.workloads import find_workload
from tests.cases.expected import FILES, KINDS, NETWORKS, OTHERWISE, REFUSED, SAME, TWINS
from tests.cases.verdicts import EVERY, TARGETS, is_right, judged, twin_verdict, verdict

WIDTH = 12


def row(name: str, cells: list[str]) -> None:
    print(f"{name:30}" + "".join(f"{cell[: WIDTH - 1]:{WIDTH}}" for cell in cells), flush=True)


def of_file(path: Path, target: str, folder: Path) -> str:
    folder.mkdir()
    try:
        captured = write_capture(find_workload(str(path)).build(), folder)
        return str(judged(lower(captured, resolve(target), Cache(folder / "cache")).artifact).outcome)
    except CrossBackendError as error:
        return type(error).__name__.removesuffix("Error")


def main() -> int:
    warnings.simplefilter("ignore")
    wrong = absent = 0
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        row("network", list(TARGETS))
        for name in NETWORKS:
            found = [verdict(name, target, folder / name) for target in TARGETS]
            pairs = [(OTHERWISE.get((name, target)), one) for target, one in zip(TARGETS, found, strict=True)]
            wrong += sum(one != "OK" if wanted is None else wanted not in one for wanted, one in pairs)
            row(name, [one.partition(":")[0].removesuffix("Error") for one in found])
        for name in KINDS:
            for target in EVERY:
                found, wanted = verdict(name, target, folder / name), REFUSED.get((name, target))
                is_absent = found.startswith("UnavailableError: ")
                absent += is_absent
                wrong += not is_absent and not is_right(found, wanted)
                row(f"{name} on {target}", [found.partition(":")[0].removesuffix("Error")])
        for name in TWINS:
            found = [twin_verdict(name, target, folder / f"{name}_twin") for target in TARGETS]
            wrong += sum(
                one not in {"MISMATCH", ""}
                for target, one in zip(TARGETS, found, strict=True)
                if (name, target) not in SAME
            )
            row(f"{name}: wrong twin", found)
        on = ("cpu", "openvino", "iree")
        row("\nONNX file", [])
        row("", list(on))
        for name, otherwise in FILES.items():
            path = Path(__file__).parent / "onnx" / f"{name}.onnx"
            found = [of_file(path, target, folder / f"{name}-{target}") for target in on]
            wrong += sum(one != "OK" and target not in otherwise for target, one in zip(on, found, strict=True))
            row(f"{name}.onnx", found)
    if absent:
        print(f"\n{absent} cannot run on this machine. cross-backend doctor says what to install.")
    print(f"\n{wrong} of them are not as they should be.")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
