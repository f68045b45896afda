// Text from outside, made fit for one line of a terminal.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace cross_backend {

// Returns one line that shows all of a text: white space becomes " ", and what a terminal would obey or hide is written
// as in source, \x1b or \u202e: control characters, what turns the direction of writing, bytes that are no UTF-8. Cuts
// the text at a sane length. Every text from a bundle, a runtime or a bench's process passes this before it is printed.
std::string printable(const std::string& text);

// Does so with each line of a text that was put together, and cuts nothing.
std::string plain(const std::string& lines);

// Counts the characters of a UTF-8 text.
std::size_t width(const std::string& text);

// Joins words with ", ".
std::string join(const std::vector<std::string>& words);

}  // namespace cross_backend
