"""Registry: the table, short names, targets that are resolved, and backends that other packages bring."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from pathlib import Path

import pytest

from cross_backend.backend import Backend
from cross_backend.backends._packages import spaces_in_path
from cross_backend.errors import UsageError
from cross_backend.names.target import Target
from cross_backend.registry import BACKENDS, find_backend, full_name, resolve, rows, short_name

SHORT = {
    "xnnpack": "executorch.xnnpack", "portable": "executorch.portable", "cpu": "onnxruntime.cpu",
    "onnxruntime": "onnxruntime.cpu", "torch": "torch.eager", "eager": "torch.eager", "compile": "torch.compile",
    "aot_inductor": "torch.aot_inductor", "openvino": "openvino", "null": "null",
}  # fmt: skip


def test_the_table_is_sorted_and_its_names_are_unique() -> None:
    assert list(rows()) == sorted(rows())
    assert set(BACKENDS) <= set(rows())
    names = [*rows(), *(alias for row in rows().values() for alias in row.aliases)]
    assert len(set(names)) == len(names)


def test_every_backend_has_file_names_of_its_own() -> None:
    stems = [short_name(name) for name in rows()]
    assert len(set(stems)) == len(stems)
    assert all("." not in stem for stem in stems)


@pytest.mark.parametrize("name", BACKENDS)
def test_every_row_leads_to_a_backend_of_its_name(name: str) -> None:
    backend = find_backend(name)
    assert isinstance(backend, Backend)
    assert backend.name == name
    assert find_backend(name) is backend
    module, _, cls = BACKENDS[name].path.partition(":")
    assert type(backend) is getattr(importlib.import_module(module), cls)


@pytest.mark.parametrize(("short", "full"), SHORT.items())
def test_short_names_work(short: str, full: str) -> None:
    assert full_name(short) == full
    assert find_backend(short) is find_backend(full)
    assert resolve(short).target == Target(full)


def test_an_unknown_backend_gets_the_nearest_and_all_choices() -> None:
    with pytest.raises(UsageError, match=r"unknown backend 'xnpack'\. Did you mean 'xnnpack'.*executorch\.portable"):
        resolve("xnpack")


def test_resolving_checks_options_and_keeps_them() -> None:
    resolved = resolve("xnnpack?threads=2")
    assert str(resolved.target) == "executorch.xnnpack?threads=2"
    assert resolved.options["threads"] == 2
    assert resolve(Target("xnnpack", {"threads": "2"})).target == resolved.target
    with pytest.raises(UsageError, match=r"option of executorch\.xnnpack: 'thread'\. Did you mean 'threads'"):
        resolve("xnnpack?thread=2")


def test_options_of_loading_shape_the_file_name_only() -> None:
    plain, tuned = resolve("openvino"), resolve("openvino?precision=bf16&threads=2")
    assert str(tuned.lowering) == "openvino" == str(plain.lowering)
    assert (plain.stem, tuned.stem) == ("openvino", "openvino_bf16_threads2")


def test_options_of_lowering_do_both() -> None:
    resolved = resolve("vulkan?precision=fp16")
    assert str(resolved.lowering) == "executorch.vulkan?precision=fp16"
    assert resolved.stem == "vulkan_fp16"


PLUGIN = """
from cross_backend.backends.null import Null
class Mine(Null.__base__):
    name, title, suffix, distributions = "mine.fast", "Mine", ".mine", ()
    missing, lower, load = Null.missing, Null.lower, Null.load
"""

ASK = """
import json
from cross_backend.errors import CrossBackendError
from cross_backend.registry import find_backend, rows
found = {}
for name in rows():
    try:
        found[name] = find_backend(name).title
    except CrossBackendError as error:
        found[name] = f"{type(error).__name__}: {error}"
print(json.dumps(found))
"""


def _install(folder: Path, module: str, source: str, entries: str) -> Path:
    (folder / f"{module}.py").write_text(source)
    info = folder / f"{module}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[cross_backend.backends]\n{entries}\n")
    return folder


def test_another_package_registers_a_backend(tmp_path: Path, run_python: Callable[..., str]) -> None:
    import json

    folder = _install(tmp_path, "mine", PLUGIN, "mine.fast = mine:Mine\nnull = mine:Mine\nxnnpack = mine:Mine")
    found = json.loads(run_python(ASK, path=folder))
    assert found["mine.fast"] == "Mine"
    assert found["null"] == "Null (no work)", "our own names cannot be taken"
    assert "xnnpack" not in found, "nor our short ones"
    assert list(found) == sorted(found)


@pytest.mark.parametrize(
    "source",
    ["import no_such_module", "Other = 1", "raise RuntimeError('two\\nlines')", "def (", "Mine = lambda: 1 / 0"],
    ids=["missing import", "missing class", "raises", "syntax", "constructor"],
)
def test_a_broken_package_breaks_only_its_own_backend(
    tmp_path: Path, run_python: Callable[..., str], source: str
) -> None:
    import json

    folder = _install(tmp_path, "mine", source, "mine.fast = mine:Mine")
    found = json.loads(run_python(ASK, path=folder))
    assert found["mine.fast"].startswith("UnavailableError: backend mine.fast (mine:Mine) does not import")
    assert "\n" not in found["mine.fast"]
    assert found["torch.eager"] == "PyTorch eager"


@pytest.mark.parametrize(("prefix", "broken"), [("/opt/my models/.venv", True), ("/opt/models/.venv", False)])
def test_compilers_that_break_at_a_space_are_not_available_there(prefix: str, broken: bool) -> None:
    unavailable = spaces_in_path(prefix)
    assert (unavailable is not None) == broken
    assert unavailable is None or (prefix in unavailable.reason and "path" in unavailable.remedy)
