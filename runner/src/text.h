// Text from outside, made fit for one line of a terminal.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace cross_backend {

// Replaces what a terminal obeys or what fools a reader by spaces, bytes that are no UTF-8 by question marks. Lines
// stay.
std::string plain(const std::string& text);

// Does so with a text that is one line, and cuts it at a sane length.
std::string printable(const std::string& text);

// Counts the characters of a UTF-8 text.
std::size_t width(const std::string& text);

// Joins words with ", ".
std::string join(const std::vector<std::string>& words);

}  // namespace cross_backend
