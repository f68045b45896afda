"""Other ways to build the runner."""

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

from tests import needs
from tests.e2e.runner.bundles import ATALLA, DELEGATE, PORTABLE, QUICK, ROOT, VULKAN, XNNPACK

OWN_BUILD = """
foreach(pair IN ITEMS executorch=executorch extension_threadpool=executorch_threadpool
        portable_ops_lib=executorch_kernels_optimized xnnpack_backend=executorch_backend_xnnpack)
  string(REGEX MATCH "(.*)=(.*)" _ ${pair})
  set(file "@PACKAGE@/lib/lib${CMAKE_MATCH_2}.so")
  add_library(${CMAKE_MATCH_1} SHARED IMPORTED)
  set_target_properties(${CMAKE_MATCH_1} PROPERTIES IMPORTED_LOCATION "${file}"
    INTERFACE_LINK_OPTIONS "LINKER:--push-state,--no-as-needed,${file},--pop-state"
    INTERFACE_INCLUDE_DIRECTORIES "@PACKAGE@/include;@PACKAGE@/include/executorch/runtime/core/portable_type/c10"
    INTERFACE_COMPILE_DEFINITIONS C10_USING_CUSTOM_GENERATED_MACROS)
endforeach()
add_library(vulkan_backend STATIC IMPORTED)
set_target_properties(vulkan_backend PROPERTIES IMPORTED_LOCATION "${CMAKE_CURRENT_LIST_DIR}/libvulkan_backend.a")
"""
OWN_VULKAN = """
#include <executorch/runtime/backend/interface.h>
using namespace executorch::runtime;
struct Vulkan : BackendInterface {
  bool is_available() const override { return true; }
  Result<DelegateHandle*> init(BackendInitContext&, FreeableBuffer*, ArrayRef<CompileSpec>) const override {
    return Error::NotSupported;
  }
  Error execute(BackendExecutionContext&, DelegateHandle*, Span<EValue*>) const override { return Error::Ok; }
};
static Vulkan vulkan;
static auto registered = register_backend({"VulkanBackend", &vulkan});
"""


def shell(*command, **extra):
    environment = {**os.environ, **extra}
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=False)


def test_own_build_of_executorch_brings_its_delegates(sound, accelerated, tmp_path):
    """Bare target names, and a static library that only registers itself, as an ExecuTorch build installs them."""
    package = Path(importlib.util.find_spec("executorch").submodule_search_locations[0])
    (tmp_path / "executorch-config.cmake").write_text(OWN_BUILD.replace("@PACKAGE@", str(package)))
    (tmp_path / "vulkan.cpp").write_text(OWN_VULKAN)
    headers = [package / "include", package / "include/executorch/runtime/core/portable_type/c10"]
    compiler = [needs.program("c++"), "-std=c++17", "-DC10_USING_CUSTOM_GENERATED_MACROS", *(f"-I{folder}" for folder in headers)]
    subprocess.run([*compiler, "-c", "vulkan.cpp"], cwd=tmp_path, check=True)
    subprocess.run(["ar", "rcs", "libvulkan_backend.a", "vulkan.o"], cwd=tmp_path, check=True)
    arguments = (f"-Dexecutorch_DIR={tmp_path}", "-DCMAKE_BUILD_TYPE=Debug", "-DRUNNER_ATALLA=OFF")
    done = shell(ROOT / "runner" / "build.sh", tmp_path / "build", *arguments, PYTHON="false")
    assert done.returncode == 0, done.stdout + done.stderr
    own = shell(tmp_path / "build" / "cross_backend_runner", sound, "--json", *QUICK)
    found = {row["name"]: row for row in json.loads(own.stdout)["results"]}
    assert found[XNNPACK]["outcome"] == found[PORTABLE]["outcome"] == "OK"
    assert found[VULKAN]["outcome"] == "LOAD_FAIL", "it is there, and refuses as written above"
    assert "VulkanBackend" in found[VULKAN]["reason"]
    own = shell(tmp_path / "build" / "cross_backend_runner", accelerated, "--json", *QUICK)
    found = {row["name"]: row for row in json.loads(own.stdout)["results"]}
    for name in (ATALLA, DELEGATE):
        assert found[name]["outcome"] == "UNAVAILABLE"
        assert "in a checkout that has src/atalla, without -DRUNNER_ATALLA=OFF" in found[name]["reason"]
    assert found[XNNPACK]["outcome"] == "OK"


def test_build_without_the_package_says_so(tmp_path):
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nexec env -u PYTHONPATH {sys.executable} -S "$@"\n')  # -S: no installed packages
    python.chmod(0o755)
    done = shell(ROOT / "runner" / "build.sh", tmp_path / "build", PYTHON=str(python))
    assert done.returncode == 1
    assert done.stderr.startswith("runner/build.sh: ")
    assert "no package executorch" in done.stderr
    assert done.stdout == ""
