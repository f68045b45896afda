"""The table of ONNX Runtime's providers: its rows, and what each misses on machines of every kind."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from cross_backend.backend import Missing
from cross_backend.backends.onnxruntime._devices import SOFTWARE_WEBGPU
from cross_backend.backends.onnxruntime._providers import PROVIDERS
from cross_backend.backends.onnxruntime.targets import OnnxRuntimeBackend
from cross_backend.errors import UnsupportedError
from cross_backend.machine import Machine
from cross_backend.registry import BACKENDS, find_backend, full_name, resolve
from cross_backend.toolchains import TOOLCHAINS, VARIABLE, Toolchain
from cross_backend.verify.compare import precision_of

LINUX = replace(Machine.here(), system="linux", arch="x86_64")
ARM, MAC, WINDOWS = (
    replace(LINUX, arch="arm64"),
    replace(LINUX, system="macos", arch="arm64"),
    replace(LINUX, system="windows"),
)
ROCM = ("dev/kfd", "opt/rocm-7.0.1/lib/libamdhip64.so.7", "opt/rocm-7.0.1/lib/libmigraphx_c.so.3")


@pytest.fixture(autouse=True)
def no_toolchains(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, str(tmp_path / "toolchains"))
    monkeypatch.delenv(SOFTWARE_WEBGPU, raising=False)
    monkeypatch.delenv("LD_LIBRARY_PATH", raising=False)


def add(toolchain: Toolchain) -> None:
    """Make what tells that it was added."""
    toolchain.python.parent.mkdir(parents=True)
    toolchain.python.touch()
    (toolchain.folder / "ready").touch()


def told(name: str, machine: Machine, root: Path, *files: str) -> str:
    """Give what stops running on a machine that holds these files; empty where nothing does."""
    for file in files:
        (root / file).parent.mkdir(parents=True, exist_ok=True)
        (root / file).touch()
    missing = PROVIDERS[name].missing(machine, root) or Missing()
    assert missing.lower is None, "the tests' environment holds what writes the payload"
    return str(missing.run or "")


def test_every_row_is_a_backend_and_the_reverse() -> None:
    ours = {name for name in BACKENDS if isinstance(find_backend(name), OnnxRuntimeBackend)}
    assert ours == {f"onnxruntime.{name}" for name in PROVIDERS}
    assert list(PROVIDERS) == sorted(PROVIDERS)
    for name in ours:
        assert find_backend(name).provider is PROVIDERS[name.partition(".")[2]]  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", sorted(name for name, provider in PROVIDERS.items() if provider.is_asynchronous))
def test_what_only_hands_work_over_has_no_profile(name: str) -> None:
    with pytest.raises(UnsupportedError, match="only hands work over"):
        find_backend(f"onnxruntime.{name}").profile(None, {}, (), 1)  # type: ignore[arg-type]


def test_a_toolchain_that_was_added_comes_before_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    """All builds of ONNX Runtime install into one folder: which one is really there, their metadata does not tell."""
    backend = find_backend("onnxruntime.cuda")
    monkeypatch.setattr(type(PROVIDERS["cuda"]), "is_installed", True)
    assert backend.run_toolchain is None
    add(TOOLCHAINS["onnxruntime_cuda"])
    assert backend.run_toolchain == "onnxruntime_cuda"


def test_short_names_that_scripts_use() -> None:
    for name in ("acl", "cpu", "cuda", "directml", "dnnl", "migraphx", "rocm", "tensorrt", "webgpu"):
        assert full_name(name) == f"onnxruntime.{name}"
    assert full_name("xnnpack") == "executorch.xnnpack" and full_name("openvino") == "openvino"


def test_each_provider_has_a_way_to_come_by_it() -> None:
    for provider in PROVIDERS.values():
        ways = (provider.toolchain is not None, bool(provider.build), provider.holders == ("onnxruntime",))
        assert sum(ways) == 1, provider.name
        if provider.toolchain is not None:
            pinned = {name for name, _ in TOOLCHAINS[provider.toolchain].pins}
            assert set(provider.holders) == pinned
        assert bool(provider.plugin) == ("onnxruntime" in provider.holders and len(provider.holders) > 1)


def test_one_payload_serves_all() -> None:
    lowered = {str(resolve(f"onnxruntime.{name}").lowering) for name in PROVIDERS}
    assert lowered == {"onnxruntime.cpu"}
    assert str(resolve("tensorrt?precision=fp16&threads=2").lowering) == "onnxruntime.cpu"


def test_settings_ask_for_the_precision_of_the_target() -> None:
    def settings(text: str) -> dict[str, str]:
        resolved = resolve(text)
        return dict(resolved.backend.provider.settings(resolved.options))  # type: ignore[attr-defined]

    assert settings("cuda") == {"use_tf32": "0"}
    assert settings("tensorrt") == {"trt_fp16_enable": "0"}
    assert settings("tensorrt?precision=fp16") == {"trt_fp16_enable": "1"}
    assert settings("migraphx?precision=fp16") == {"migraphx_fp16_enable": "1"}
    assert settings("onnxruntime.openvino?threads=3") == {
        "device_type": "CPU", "precision": "FP32", "num_of_threads": "3",
    }  # fmt: skip
    assert precision_of(resolve("onnxruntime.qnn").options) == "fp16"
    assert precision_of(resolve("tensorrt").options) == precision_of(resolve("cuda").options) == "fp32"


@pytest.mark.parametrize(
    ("name", "machine", "clue"),
    [
        ("acl", LINUX, "64-bit Arm processor, not x86_64"),
        ("coreml", LINUX, "needs macOS"),
        ("directml", LINUX, "needs Windows"),
        ("directml", MAC, "needs Windows"),
        ("cuda", MAC, "macOS does not drive"),
        ("tensorrt", MAC, "macOS does not drive"),
        ("rocm", WINDOWS, "onnxruntime.directml under Windows"),
        ("migraphx", ARM, "x86-64 Linux"),
        ("openvino", ARM, "not for arm64 linux; use the target openvino"),
    ],
)
def test_another_system_is_the_only_thing_told(name: str, machine: Machine, clue: str, tmp_path: Path) -> None:
    text = told(name, machine, tmp_path)
    assert clue in text and "toolchain add" not in text


@pytest.mark.parametrize(("name", "flag"), [("dnnl", "--use_dnnl"), ("xnnpack", "--use_xnnpack")])
def test_what_nobody_publishes_tells_how_to_build_it(name: str, flag: str, tmp_path: Path) -> None:
    assert flag in told(name, LINUX, tmp_path)
    assert "--use_acl" in told("acl", ARM, tmp_path)


def test_nvidia_driver_and_package_are_told_apart(tmp_path: Path) -> None:
    both = told("cuda", LINUX, tmp_path)
    assert "/dev/nvidiactl is not here" in both and "onnxruntime-gpu" in both
    assert both.endswith("then: cross-backend toolchain add onnxruntime_cuda")
    package = told("cuda", LINUX, tmp_path, "dev/nvidiactl")
    assert "NVIDIA" not in package and package.endswith("; cross-backend toolchain add onnxruntime_cuda")
    assert "tensorrt-cu13" in told("tensorrt", LINUX, tmp_path)


def test_nvidia_driver_of_windows_and_its_linux(tmp_path: Path) -> None:
    assert "nvcuda.dll is not here" in told("cuda", WINDOWS, tmp_path)
    assert "nvcuda" not in told("cuda", WINDOWS, tmp_path, "Windows/System32/nvcuda.dll")
    assert "NVIDIA" not in told("cuda", LINUX, tmp_path / "wsl", "usr/lib/wsl/lib/libcuda.so.1")


def test_amd_driver_and_libraries_are_told_apart(tmp_path: Path) -> None:
    nothing = told("rocm", LINUX, tmp_path)
    assert "/dev/kfd is not here" in nothing and "libamdhip64.so.7" in nothing and "onnxruntime_rocm" in nothing
    driver = told("migraphx", LINUX, tmp_path, "dev/kfd")
    assert "kfd" not in driver and "libmigraphx_c.so.3 is not here" in driver
    assert told("migraphx", LINUX, tmp_path, *ROCM).endswith("; cross-backend toolchain add onnxruntime_migraphx")


def test_a_library_may_lie_where_the_loader_is_told_to_look(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "libmigraphx_c.so.3").touch()
    monkeypatch.setenv("LD_LIBRARY_PATH", f"/nowhere:{tmp_path / 'own'}")
    assert "libmigraphx_c" not in told("migraphx", LINUX, tmp_path, "dev/kfd")


def test_a_software_graphics_driver_must_be_allowed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert f"{SOFTWARE_WEBGPU}=1" in told("webgpu", LINUX, tmp_path)
    assert "graphics" not in told("webgpu", LINUX, tmp_path / "gpu", "dev/dri/renderD128")
    monkeypatch.setenv(SOFTWARE_WEBGPU, "1")
    assert "graphics" not in told("webgpu", LINUX, tmp_path)


def test_nothing_is_missing_where_all_is_there(tmp_path: Path) -> None:
    assert told("cpu", LINUX, tmp_path) == told("coreml", MAC, tmp_path) == ""
    for name, files in (("cuda", ["dev/nvidiactl"]), ("rocm", ROCM), ("qnn", []), ("openvino", [])):
        toolchain = TOOLCHAINS[str(PROVIDERS[name].toolchain)]
        add(toolchain)
        assert told(name, LINUX, tmp_path, *files) == ""
        resolved = resolve(f"onnxruntime.{name}")
        assert resolved.python == str(toolchain.python) != resolved.lowering_python


def test_the_end_of_rocm_is_told_with_the_way_out() -> None:
    assert find_backend("rocm").lifecycle.read("1.31.1").startswith("removed in onnxruntime 1.23")
    assert "onnxruntime.migraphx" in find_backend("rocm").lifecycle.read(None)
