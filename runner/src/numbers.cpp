#include "numbers.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdarg>
#include <cstdio>

#include "text.h"

namespace cross_backend {

std::string format(const char* pattern, ...) {
  std::array<char, 200> text{};
  va_list values;
  va_start(values, pattern);
  std::vsnprintf(text.data(), text.size(), pattern, values);
  va_end(values);
  return text.data();
}

std::string milliseconds(double value) {
  if (value >= 100) return format("%.0f", value);
  const int wanted = value > 0 ? 2 - static_cast<int>(std::floor(std::log10(value))) : 0;
  return format("%.*f", std::max(value >= 1 ? 3 : 4, wanted), value);
}

std::string numbers(const std::vector<double>& values, const char* pattern) {
  std::vector<std::string> words;
  for (const double value : values) words.push_back(format(pattern, value));
  return join(words);
}

}  // namespace cross_backend
