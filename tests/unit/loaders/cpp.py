"""The C++ loader's compiler: its flags, and a program around the loader."""

from __future__ import annotations

import importlib.metadata
import importlib.util
from pathlib import Path

import nlohmann_json

PACKAGE = Path(importlib.util.find_spec("executorch").submodule_search_locations[0])  # type: ignore[union-attr,index]
LIBRARIES = ("executorch", "executorch_kernels_optimized", "executorch_backend_xnnpack", "executorch_threadpool")
COMPILE = (
    *("g++", "-std=c++17", "-Wall", "-Wextra", "-Werror"),
    # What the package's executorch-config.cmake gives to every program that links it.
    *("-DC10_USING_CUSTOM_GENERATED_MACROS", "-DET_EVENT_TRACER_ENABLED", "-DET_USE_THREADPOOL"),
    *("-isystem", f"{PACKAGE}/include", "-isystem", f"{PACKAGE}/include/executorch/runtime/core/portable_type/c10"),
    *("-isystem", f"{Path(nlohmann_json.__file__).parent}/include"),
)
VERSIONS = {name: importlib.metadata.version(name) for name in ("executorch", "nlohmann_json")}
LINK = (
    f"-L{PACKAGE}/lib",
    "-Wl,--no-as-needed",
    *(f"-l{x}" for x in LIBRARIES),
    f"-Wl,-rpath,{PACKAGE}/lib",
)
PROGRAM = """
#include <iostream>
#include "load_best.hpp"
int main(int, char** arguments) {
  if (arguments[1] == std::string("sha256")) {
    const std::string data{std::istreambuf_iterator<char>(std::cin), {}};
    unsigned char digest[32];
    cross_backend::detail::sha256(reinterpret_cast<const unsigned char*>(data.data()), data.size(), digest);
    std::cout.write(reinterpret_cast<const char*>(digest), sizeof digest);
    return 0;
  }
  try {
    const auto best = cross_backend::load_best(arguments[1], arguments[2], arguments[3] != std::string("trust"));
    if (arguments[3] == std::string("call")) {
      const auto x = executorch::extension::make_tensor_ptr({2}, std::vector<float>{1, 1});
      std::cout << best.module->forward(x)->at(0).toTensor().const_data_ptr<float>()[0];
      return 0;
    }
    std::cout << nlohmann::json{{"name", best.artifact.at("name")}, {"rejected", best.rejected}, {"why", best.why}};
  } catch (const std::exception& error) {
    std::cerr << "load_best: " << error.what() << "\\n";
    return 1;
  }
}
"""


def header_of(sources: Path) -> str:
    return (sources / "load_best.hpp").read_text(encoding="utf-8")
