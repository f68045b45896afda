// Text from outside, made fit for one line of a terminal.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace cross_backend {

// Replaces control characters (also the two-byte ones, U+0080 to U+009F) by spaces and cuts the text at a sane length.
std::string printable(const std::string& text);

// Counts the characters of a UTF-8 text.
std::size_t width(const std::string& text);

// Joins words with ", ".
std::string join(const std::vector<std::string>& words);

}  // namespace cross_backend
