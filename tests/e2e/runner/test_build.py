"""Other ways to build the runner, and what build.sh takes and says."""

import importlib.util
import json
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

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
NO_SYSTEM_JSON = "-DCMAKE_DISABLE_FIND_PACKAGE_nlohmann_json=ON"
BUILD = ROOT / "runner" / "build.sh"
NEEDED = ("bash", "basename", "dirname", "env", "getconf", "sed", "uname")  # what build.sh itself calls


def shell(*command, **extra):
    environment = {**os.environ, **extra}
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=1000, check=False)


@pytest.mark.nightly
def test_own_build_of_executorch_brings_its_delegates(sound, accelerated, tmp_path):
    """Bare target names, and a static library that only registers itself, as an ExecuTorch build installs them."""
    package = Path(importlib.util.find_spec("executorch").submodule_search_locations[0])
    (tmp_path / "executorch-config.cmake").write_text(OWN_BUILD.replace("@PACKAGE@", str(package)))
    (tmp_path / "vulkan.cpp").write_text(OWN_VULKAN)
    headers = [package / "include", package / "include/executorch/runtime/core/portable_type/c10"]
    flags = ["-std=c++17", "-DC10_USING_CUSTOM_GENERATED_MACROS", *(f"-I{folder}" for folder in headers)]
    compiler = [needs.program("c++"), *flags]
    subprocess.run([*compiler, "-c", "vulkan.cpp"], cwd=tmp_path, check=True)
    subprocess.run(["ar", "rcs", "libvulkan_backend.a", "vulkan.o"], cwd=tmp_path, check=True)
    arguments = (f"-Dexecutorch_DIR={tmp_path}", "-DCMAKE_BUILD_TYPE=Debug", "-DRUNNER_ATALLA=OFF", NO_SYSTEM_JSON)
    done = shell(BUILD, tmp_path / "build", *arguments, PYTHON=sys.executable)
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


@pytest.mark.nightly
@pytest.mark.timeout(1200)
def test_it_compiles_atallas_sources_itself(accelerated, tmp_path):
    done = shell(BUILD, tmp_path / "build", PYTHON=sys.executable)
    assert done.returncode == 0, done.stdout + done.stderr
    made = shell(tmp_path / "build" / "cross_backend_runner", accelerated, "--json", *QUICK)
    found = {row["name"]: row for row in json.loads(made.stdout)["results"]}
    assert [found[name]["outcome"] for name in (ATALLA, DELEGATE)] == ["OK"] * 2


def write_program(file, text):
    file.parent.mkdir(exist_ok=True)
    file.write_text(f"#!/bin/sh\n{text}\n")
    file.chmod(0o755)
    return file


@pytest.fixture
def bare_python(tmp_path):
    """A Python without installed packages."""
    text = f'exec env -u PYTHONPATH {shlex.quote(sys.executable)} -S "$@"'
    return write_program(tmp_path / "environment" / "python", text)


def refused(*command, **extra):
    done = shell(BUILD, *command, **extra)
    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr.startswith("runner/build.sh: ")
    assert done.stderr.count("\n") == 1
    return done.stderr


@pytest.fixture
def cmake_of_pip(monkeypatch):
    """Put this environment's CMake on the PATH, where there may be no other."""
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")


@pytest.mark.usefixtures("cmake_of_pip")
def test_build_without_the_package_says_so(bare_python, tmp_path):
    assert "no package executorch" in refused(tmp_path / "build", PYTHON=str(bare_python))


@pytest.mark.usefixtures("cmake_of_pip")
def test_build_without_json_says_what_brings_it(bare_python, tmp_path):
    (tmp_path / "executorch-config.cmake").touch()
    arguments = (f"-Dexecutorch_DIR={tmp_path}", NO_SYSTEM_JSON)
    done = shell(BUILD, tmp_path / "build", *arguments, PYTHON=str(bare_python))
    assert done.returncode == 1
    assert f"\n    {bare_python} -m pip install nlohmann-json\n" in done.stderr


@pytest.fixture
def tools(tmp_path, monkeypatch):
    """Make a PATH of what build.sh calls, a compiler, and these programs, which print how they were called."""

    def make(*names, compiler="c++"):
        folder = tmp_path / "tools"
        for name in NEEDED:
            folder.mkdir(exist_ok=True)
            (folder / name).symlink_to(shutil.which(name))
        for name in filter(None, (*names, compiler)):
            write_program(folder / name, 'echo "$0 $*"')
        monkeypatch.setenv("PATH", str(folder))
        for name in ("CXX", "CMAKE_GENERATOR", "CMAKE_TOOLCHAIN_FILE"):
            monkeypatch.delenv(name, raising=False)
        return folder

    return make


def calls(tmp_path, *arguments, python="python"):
    """Give how build.sh calls CMake, twice."""
    done = shell(BUILD, tmp_path / "build", "-Dexecutorch_DIR=there", *arguments, PYTHON=str(python))
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.splitlines()


def test_cmake_and_ninja_are_those_beside_the_interpreter(bare_python, tmp_path, tools, monkeypatch):
    tools("cmake", "ninja", "make")
    beside = bare_python.parent
    for name in ("cmake", "ninja"):
        write_program(beside / name, 'echo "$0 $*"')
    configure, build = calls(tmp_path, "-DMORE=1", python=bare_python)
    assert configure == (
        f"{beside}/cmake -S {BUILD.parent} -B {tmp_path}/build -DRUNNER_PYTHON={bare_python} "
        f"-G Ninja -DCMAKE_MAKE_PROGRAM={beside}/ninja -Dexecutorch_DIR=there -DMORE=1"
    )
    assert build.startswith(f"{beside}/cmake --build {tmp_path}/build ")
    monkeypatch.chdir(tmp_path)
    assert calls(tmp_path, "-DMORE=1", python="environment/python") == [configure, build]


def test_cmake_and_ninja_of_the_path_come_second(bare_python, tmp_path, tools):
    folder = tools("cmake", "ninja")
    for python in (bare_python, "python-that-is-not-there"):
        configure, _ = calls(tmp_path, python=python)
        assert configure.startswith(f"{folder}/cmake ")
        assert f" -G Ninja -DCMAKE_MAKE_PROGRAM={folder}/ninja " in configure


def test_make_does_without_ninja(bare_python, tmp_path, tools):
    tools("cmake", "make")
    assert "-G" not in calls(tmp_path, python=bare_python)[0]


@pytest.mark.parametrize(("before", "taken"), [("Unix Makefiles", False), ("Ninja", True)])
def test_configured_folder_keeps_its_build_tool(before, taken, bare_python, tmp_path, tools):
    tools("cmake", "ninja")
    (tmp_path / "build").mkdir()
    (tmp_path / "build" / "CMakeCache.txt").write_text(f"CMAKE_GENERATOR:INTERNAL={before}\n")
    assert ("-G Ninja" in calls(tmp_path, python=bare_python)[0]) is taken


def test_build_tool_that_is_asked_for_is_taken(bare_python, tmp_path, tools, monkeypatch):
    tools("cmake", "ninja")
    assert "Ninja" not in calls(tmp_path, "-G", "Unix Makefiles", python=bare_python)[0]
    monkeypatch.setenv("CMAKE_GENERATOR", "Unix Makefiles")
    assert "Ninja" not in calls(tmp_path, python=bare_python)[0]


def test_missing_tool_has_a_line_that_says_what_brings_it(bare_python, tmp_path, tools):
    tools(compiler=None)
    extra = {"PYTHON": str(bare_python)}
    assert "there is no C++ compiler: apt install g++" in refused(tmp_path / "build", **extra)
    folder = tmp_path / "tools"
    write_program(folder / "clang++", "")
    assert f"neither ninja nor make: {bare_python} -m pip install ninja" in refused(tmp_path / "build", **extra)
    write_program(folder / "ninja", "")
    assert f"no cmake: {bare_python} -m pip install cmake" in refused(tmp_path / "build", **extra)
    write_program(folder / "cmake", "")
    assert "no package executorch" in refused(tmp_path / "build", **extra)


def test_compiler_of_ones_own_is_not_looked_for(bare_python, tmp_path, tools, monkeypatch):
    tools("cmake", "ninja", compiler=None)
    assert calls(tmp_path, "-DCMAKE_CXX_COMPILER=/opt/c++", python=bare_python)
    assert calls(tmp_path, "-DCMAKE_TOOLCHAIN_FILE=phone.cmake", python=bare_python)
    monkeypatch.setenv("CMAKE_TOOLCHAIN_FILE", "phone.cmake")
    assert calls(tmp_path, python=bare_python)
    monkeypatch.delenv("CMAKE_TOOLCHAIN_FILE")
    monkeypatch.setenv("CXX", f"{tmp_path}/tools/ninja -v")
    assert calls(tmp_path, python=bare_python)
