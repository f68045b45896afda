#include "text.h"

#include <algorithm>

namespace cross_backend {
namespace {

constexpr std::size_t kLongest = 500;

bool continues(char byte) { return (static_cast<unsigned char>(byte) & 0xC0) == 0x80; }

}  // namespace

std::string printable(const std::string& text) {
  std::string shown;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (shown.size() >= kLongest && !continues(text[i])) return shown + "…";
    const auto byte = static_cast<unsigned char>(text[i]);
    const auto next = i + 1 < text.size() ? static_cast<unsigned char>(text[i + 1]) : 0;
    const bool c1 = byte == 0xC2 && next >= 0x80 && next < 0xA0;
    shown += byte < 0x20 || byte == 0x7F || c1 ? ' ' : text[i];
    if (c1) ++i;
  }
  const auto end = shown.find_last_not_of(' ');
  return end == std::string::npos ? "" : shown.substr(0, end + 1);
}

std::size_t width(const std::string& text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char byte) { return !continues(byte); }));
}

std::string join(const std::vector<std::string>& words) {
  std::string joined;
  for (const auto& word : words) joined += (joined.empty() ? "" : ", ") + word;
  return joined;
}

}  // namespace cross_backend
