// Numbers as a person reads them.
#pragma once

#include <string>
#include <vector>

namespace cross_backend {

// Formats as printf does, at most 199 bytes.
std::string format(const char* pattern, ...);

// Returns a duration with at least three significant digits.
std::string milliseconds(double value);

// Returns numbers with commas between them.
std::string numbers(const std::vector<double>& values, const char* pattern);

}  // namespace cross_backend
