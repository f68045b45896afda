#include "text.h"

#include <algorithm>
#include <array>
#include <utility>

namespace cross_backend {
namespace {

constexpr std::size_t kLongest = 500;

bool continues(char byte) { return (static_cast<unsigned char>(byte) & 0xC0) == 0x80; }

// Ranges of characters that a terminal obeys, or that hide or turn what stands beside them: controls, U+00AD, U+061C,
// U+180E, those without width and of direction, U+FEFF, U+FFF9 to U+FFFB, and tags.
constexpr std::array<std::pair<char32_t, char32_t>, 11> kHidden{{
    {0x00, 0x1F},
    {0x7F, 0x9F},
    {0xAD, 0xAD},
    {0x61C, 0x61C},
    {0x180E, 0x180E},
    {0x200B, 0x200F},
    {0x2028, 0x202E},
    {0x2060, 0x206F},
    {0xFEFF, 0xFEFF},
    {0xFFF9, 0xFFFB},
    {0xE0000, 0xE0FFF},
}};

bool hidden(char32_t letter) {
  return std::any_of(kHidden.begin(), kHidden.end(),
                     [letter](const auto& range) { return range.first <= letter && letter <= range.second; });
}

// Gives the bytes of the character that begins at a place, and the character; 0 where UTF-8 has none (RFC 3629).
std::pair<std::size_t, char32_t> character(const std::string& text, std::size_t at) {
  const auto first = static_cast<unsigned char>(text[at]);
  if (first < 0x80) return {1, first};
  const std::size_t size = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
  if (first < 0xC2 || first > 0xF4 || at + size > text.size()) return {0, 0};
  char32_t letter = first & (0x7F >> size);
  for (std::size_t i = 1; i < size; ++i) {
    if (!continues(text[at + i])) return {0, 0};
    letter = letter << 6 | (static_cast<unsigned char>(text[at + i]) & 0x3F);
  }
  constexpr std::array<char32_t, 5> kLeast{0, 0, 0x80, 0x800, 0x10000};
  const bool half = letter >= 0xD800 && letter <= 0xDFFF;
  if (letter < kLeast[size] || letter > 0x10FFFF || half) return {0, 0};
  return {size, letter};
}

}  // namespace

std::string plain(const std::string& text) {
  std::string shown;
  for (std::size_t i = 0; i < text.size();) {
    const auto [size, letter] = character(text, i);
    if (size == 0) {
      shown += '?';
      ++i;
      continue;
    }
    shown += hidden(letter) && letter != '\n' ? " " : text.substr(i, size);
    i += size;
  }
  return shown;
}

std::string printable(const std::string& text) {
  auto shown = plain(text);
  std::replace(shown.begin(), shown.end(), '\n', ' ');
  if (shown.size() > kLongest) {
    auto cut = kLongest;
    while (continues(shown[cut])) ++cut;
    if (cut < shown.size()) return shown.substr(0, cut) + "…";
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
