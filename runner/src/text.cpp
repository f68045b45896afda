#include "text.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <string_view>
#include <utility>

namespace cross_backend {
namespace {

constexpr std::size_t kLongest = 500;  // bytes

using Range = std::pair<std::uint32_t, std::uint32_t>;  // first and last code point

// White space other than " ": str.isspace of Python.
constexpr std::array<Range, 10> kSpaces{{
    {0x0009, 0x000D},
    {0x001C, 0x001F},
    {0x0085, 0x0085},
    {0x00A0, 0x00A0},
    {0x1680, 0x1680},
    {0x2000, 0x200A},
    {0x2028, 0x2029},
    {0x202F, 0x202F},
    {0x205F, 0x205F},
    {0x3000, 0x3000},
}};

// What else is not seen as it is: the categories Cc, Cf, Cs and Co of Unicode 15.1.
constexpr std::array<Range, 24> kUnseen{{
    {0x0000, 0x001F},   {0x007F, 0x009F},   {0x00AD, 0x00AD},   {0x0600, 0x0605},     {0x061C, 0x061C},
    {0x06DD, 0x06DD},   {0x070F, 0x070F},   {0x0890, 0x0891},   {0x08E2, 0x08E2},     {0x180E, 0x180E},
    {0x200B, 0x200F},   {0x202A, 0x202E},   {0x2060, 0x206F},   {0xD800, 0xF8FF},     {0xFEFF, 0xFEFF},
    {0xFFF9, 0xFFFB},   {0x110BD, 0x110BD}, {0x110CD, 0x110CD}, {0x13430, 0x1343F},   {0x1BCA0, 0x1BCA3},
    {0x1D173, 0x1D17A}, {0xE0000, 0xE007F}, {0xF0000, 0xFFFFF}, {0x100000, 0x10FFFF},
}};

bool continues(char byte) { return (static_cast<unsigned char>(byte) & 0xC0) == 0x80; }

struct Character {
  std::uint32_t code;
  std::size_t size;  // bytes; 0 where they are no UTF-8
};

// Reads the first character: the shortest form only, as RFC 3629 has it.
Character first_of(std::string_view text) {
  const auto lead = static_cast<unsigned char>(text[0]);
  if (lead < 0x80) return {lead, 1};
  const std::size_t size = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
  constexpr std::array<std::uint32_t, 5> kLeast{0, 0, 0x80, 0x800, 0x10000};
  if (lead < 0xC2 || lead > 0xF4 || text.size() < size) return {lead, 0};
  std::uint32_t code = lead & (0x7Fu >> size);
  for (std::size_t i = 1; i < size; ++i) {
    if (!continues(text[i])) return {lead, 0};
    code = code << 6 | (static_cast<unsigned char>(text[i]) & 0x3Fu);
  }
  return code < kLeast.at(size) || code > 0x10FFFF ? Character{lead, 0} : Character{code, size};
}

template <std::size_t size>
bool is_in(const std::array<Range, size>& ranges, std::uint32_t code) {
  return std::any_of(ranges.begin(), ranges.end(),
                     [&](const Range& range) { return range.first <= code && code <= range.second; });
}

std::string escaped(std::uint32_t code) {
  std::array<char, 16> text{};
  std::snprintf(text.data(), text.size(), code < 0x100 ? "\\x%02x" : code < 0x10000 ? "\\u%04x" : "\\U%08x", code);
  return text.data();
}

// Returns what stands for the bytes of one character; for one byte where they are no UTF-8.
std::string shown(const std::string& bytes, const Character& character) {
  if (character.size == 0) return escaped(character.code);
  if (is_in(kSpaces, character.code)) return " ";
  return is_in(kUnseen, character.code) ? escaped(character.code) : bytes;
}

// Returns all of a text as one line, and cuts it at a length.
std::string one_line(const std::string& text, std::size_t longest) {
  std::string line;
  const std::string_view all(text);
  for (std::size_t i = 0; i < all.size();) {
    if (line.size() >= longest) return line + "…";
    const auto character = first_of(all.substr(i));
    const auto taken = std::max<std::size_t>(character.size, 1);
    line += shown(text.substr(i, taken), character);
    i += taken;
  }
  return line;
}

}  // namespace

std::string plain(const std::string& lines) {
  std::string text;
  for (std::size_t begin = 0, end = 0; begin <= lines.size(); begin = end + 1) {
    end = std::min(lines.find('\n', begin), lines.size());
    text += one_line(lines.substr(begin, end - begin), std::string::npos) + (end < lines.size() ? "\n" : "");
  }
  return text;
}

std::string printable(const std::string& text) {
  const auto line = one_line(text, kLongest);
  const auto end = line.find_last_not_of(' ');
  return end == std::string::npos ? "" : line.substr(0, end + 1);
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
