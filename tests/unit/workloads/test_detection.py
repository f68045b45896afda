"""Detectors: what is missing is told, and the package is kept from the network, pip and the user's home."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from cross_backend.errors import UnavailableError
from cross_backend.workloads import WORKLOADS, find_workload
from cross_backend.workloads.detection import _guest

DETECTORS = [name for name, row in WORKLOADS.items() if row.family == "detection"]

GUEST = """\
import os
from pathlib import Path
seen = {key: value for key, value in os.environ.items() if key.startswith(("YOLO_", "ULTRALYTICS_"))}
Path(__file__).with_name("seen.txt").write_text(repr(seen))
os.environ["OMP_NUM_THREADS"] = "1"
raise ImportError("libGL.so.1: cannot open shared object file")
"""
BUILD = """
import os, sys
from cross_backend.errors import UnavailableError
from cross_backend.workloads.detection import yolo
before = dict(os.environ)
try:
    yolo("yolo11n")
except UnavailableError as error:
    print(error)
assert {k: v for k, v in os.environ.items() if k.startswith(("YOLO", "OMP"))} == {
    k: v for k, v in before.items() if k.startswith(("YOLO", "OMP"))
}
"""


def test_the_table_has_the_guides_detectors() -> None:
    assert {"yolo11n", "yolov5n", "yolov8n"} <= set(DETECTORS)
    for name in DETECTORS:
        assert "AGPL" in WORKLOADS[name].licence
        assert WORKLOADS[name].requires == (("torch", "yolo"), ("ultralytics", "yolo"))


@pytest.mark.parametrize("name", DETECTORS)
def test_a_detector_without_its_package_tells_the_remedy(name: str) -> None:
    """This environment has no ultralytics."""
    with pytest.raises(UnavailableError) as caught:
        find_workload(name).build()
    assert str(caught.value) == f"{name} needs the package ultralytics; pip install 'cross-backend[yolo]'"


def test_the_guest_leaves_no_variable_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("YOLO_CONFIG_DIR", "/mine")
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    before = dict(os.environ)
    with _guest():
        folder = Path(os.environ["YOLO_CONFIG_DIR"])
        assert folder.is_dir() and folder != Path("/mine")
        assert (os.environ["YOLO_OFFLINE"], os.environ["YOLO_AUTOINSTALL"]) == ("true", "false")
        (folder / "settings.json").write_text("{}")
        os.environ["OMP_NUM_THREADS"] = "1"
    assert dict(os.environ) == before
    assert not folder.exists()
    with pytest.raises(ImportError), _guest():
        raise ImportError
    assert dict(os.environ) == before


@pytest.mark.slow
def test_a_package_that_does_not_import_is_told_and_was_kept_offline(tmp_path: Path) -> None:
    package = tmp_path / "ultralytics"
    package.mkdir()
    (package / "__init__.py").write_text(GUEST)
    done = subprocess.run(
        [sys.executable, "-c", BUILD],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(tmp_path), "HOME": str(tmp_path / "home")},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == (
        "yolo11n needs ultralytics, which fails here: ImportError: libGL.so.1: cannot open shared object file; "
        "pip install 'cross-backend[yolo]'"
    )
    seen = (package / "seen.txt").read_text()
    for variable in ("'YOLO_OFFLINE': 'true'", "'YOLO_AUTOINSTALL': 'false'", "'ULTRALYTICS_SAFE_LOAD': 'true'"):
        assert variable in seen
    assert not (tmp_path / "home").exists()
