# nlohmann_json: of the package nlohmann-json of a Python, or else the system's.
set(RUNNER_PYTHON python3 CACHE STRING "Python whose package nlohmann-json is taken; build.sh gives $PYTHON")
execute_process(
  COMMAND "${RUNNER_PYTHON}" -c
          "import importlib.util as u; s = u.find_spec('nlohmann_json'); print(s.submodule_search_locations[0] if s else '')"
  OUTPUT_VARIABLE package OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
if(package AND EXISTS "${package}/include/nlohmann/json.hpp" AND NOT nlohmann_json_DIR)
  file(TO_CMAKE_PATH "${package}/include" headers)
  add_library(nlohmann_json::nlohmann_json INTERFACE IMPORTED)  # imported: our warnings are not theirs
  target_include_directories(nlohmann_json::nlohmann_json INTERFACE "${headers}")
  message(STATUS "runner: nlohmann_json of ${package}")
else()
  find_package(nlohmann_json 3.10 CONFIG QUIET)
  if(NOT nlohmann_json_FOUND)
    message(FATAL_ERROR "There is no nlohmann_json. This brings it:\n  ${RUNNER_PYTHON} -m pip install nlohmann-json")
  endif()
endif()
