"""The tests' own surroundings: nothing of the user's is seen, and a forked command is a process like any other."""

from __future__ import annotations

import importlib
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from cross_backend.cache import Cache
from cross_backend.store import Store
from cross_backend.toolchains import root
from tests import surroundings
from tests.unit.conftest import room

linux = pytest.mark.skipif(sys.platform != "linux", reason="commands are forked on Linux only")
ENTER = """
import json, os, signal
from tests import surroundings
surroundings.enter(is_main=True)
names = ("CROSS_BACKEND_CACHE", "CROSS_BACKEND_TOOLCHAINS", "XDG_DATA_HOME", "CROSS_BACKEND_DB", "NO_COLOR")
print(json.dumps([{name: os.environ.get(name) for name in names}, signal.getsignal(signal.SIGINT) == signal.SIG_IGN]))
print(surroundings.run_folder().is_dir())
surroundings.leave()
print(surroundings.run_folder().exists())
"""

NET = """
import os
import torch
def net():
    print("to a log")
    return torch.nn.Linear(2, 1), torch.ones(1, int(os.environ["WIDTH"]))
"""


def test_nothing_lies_in_the_users_folders() -> None:
    run = surroundings.run_folder()
    assert Cache().root == run / "cache" and root() == run / "toolchains"
    with Store.open() as store:
        assert Path(str(store.place)).is_relative_to(run / "data")


def test_what_the_users_shell_says_is_not_heard(tmp_path: Path) -> None:
    """Nor that interrupts are ignored, as in the background."""
    said = {"CROSS_BACKEND_CACHE": "/mine", "CROSS_BACKEND_TOOLCHAINS": "/mine", "XDG_DATA_HOME": "/mine"}
    said |= {"CROSS_BACKEND_DB": "/mine.sqlite", "NO_COLOR": "1", "PYTHONPATH": str(surroundings.ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", ENTER],
        env={**os.environ, **said},
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN),
        capture_output=True,
        text=True,
        check=True,
    )
    assert "mine" not in done.stdout and '"CROSS_BACKEND_DB": null, "NO_COLOR": null' in done.stdout
    assert done.stdout.splitlines()[0].endswith("false]") and done.stdout.splitlines()[1:] == ["True", "False"]


@linux
def test_a_forked_command_has_its_own_streams_status_folder_and_environment(popen: type, tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text(NET)

    def run(*words: str, width: str = "2") -> tuple[int, str, str]:
        environment = {**os.environ, "CROSS_BACKEND_CACHE": str(tmp_path / "cache"), "WIDTH": width}
        command = [sys.executable, "-m", "cross_backend", *words]
        process = popen(command, stdout=-1, stderr=-1, cwd=tmp_path, env=environment, text=True)
        out, err = process.communicate(timeout=120)
        return process.returncode, out, err

    arguments = ("export", "net.py:net", "--backends", "torch", "--output-dir", "out")
    status, out, err = run(*arguments)
    assert status == 0 and (tmp_path / "out" / "net_net_torch.pt2").is_file(), err
    assert "to a log" not in out + err
    assert any("to a log" in log.read_text() for log in (tmp_path / "cache" / "logs").iterdir())
    status, _, err = run(*arguments, width="3")
    assert status == 1 and err.splitlines()[-1].startswith("cross-backend export: ")
    assert run("--version")[1].startswith("cross-backend ")
    assert run("exprot")[0] == 2


@linux
def test_a_forked_script_is_a_program_of_its_own(popen: type) -> None:
    script = "import sys\nprint(__name__, sys.argv, 'tests.zygote' in sys.modules)\nsys.exit('said')"
    process = popen([sys.executable, "-c", script, "a", "b"], stdout=-1, stderr=-1, text=True)
    assert process.communicate(timeout=120) == ("__main__ ['-c', 'a', 'b'] False\n", "said\n")
    assert process.returncode == 1


def test_what_makes_captures_and_artifacts_is_there() -> None:
    """A pattern that finds nothing would let stale files of the shared cache pass for new ones."""
    source = surroundings.ROOT / "src" / "cross_backend"
    assert all(any(source.glob(pattern)) for pattern in surroundings._MAKERS)


def test_what_is_imported_on_a_full_disk_can_be_imported_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Bytecode of which only a part was written would fail all later tests."""
    (tmp_path / "words.py").write_text(f"WORDS = {[str(one) for one in range(1000)]}\n")
    monkeypatch.syspath_prepend(tmp_path)
    with room(1000):
        importlib.import_module("words")
    again = subprocess.run([sys.executable, "-c", "import words"], cwd=tmp_path, check=False)
    assert again.returncode == 0
