// What this program's files about ExecuTorch share: its start, its errors, its delegates and its types.
#pragma once

#include <executorch/runtime/core/error.h>
#include <executorch/runtime/core/exec_aten/exec_aten.h>

#include <string>
#include <vector>

#include "outcome.h"

namespace cross_backend::executorch_runtime {

// OpenVINO's delegate takes as many threads as its process may use processors, and has no option for it.
inline constexpr auto kOpenVino = "OpenvinoBackend";

// Atalla's delegate, which is compiled into this program and has threads of its own.
inline constexpr auto kAtalla = "AtallaBackend";

void start();

// Forgets the error that the runtime told of last; what follows is another matter.
void forget_error();

// Throws a Failure with the runtime's own words, where it fails.
void check(executorch::runtime::Error error, Outcome otherwise, const char* doing);

// Throws Unavailable where this build does not hold a delegate, or this machine cannot run it.
void check_delegates(const std::vector<std::string>& ids);

std::vector<std::string> delegates();

// Sizes the thread pools of the runtime and of these delegates.
void set_threads(const std::vector<std::string>& ids, int threads);

// Return the name of a type, empty where there is none, and the type of a name.
std::string name_of(executorch::aten::ScalarType type);
executorch::aten::ScalarType type_of(const std::string& name);

}  // namespace cross_backend::executorch_runtime
