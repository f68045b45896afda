// The command line: one table of options says what is read, what is refused, and what --help prints.
#pragma once

#include <string>
#include <variant>
#include <vector>

namespace cross_backend {

struct Option {
  std::string name;  // with its dashes; underscores do for those inside
  std::string kind;  // what --help calls its value; a flag has none
  std::string help;  // an option without stays out of --help
  // A flag is set; a double is positive; a list takes every word up to the next option.
  std::variant<bool*, int*, double*, std::string*, std::vector<std::string>*> target;
  int lowest = 0;  // of an int
  int highest = 0;
  std::string other = "";  // a further name
};

struct CommandLine {
  std::string about;
  std::string version;
  Option positional;  // a text, required; its further name is an option that sets it, too
  std::vector<Option> options;
  const bool* is_alone;  // where it is set, no positional is wanted
};

// Returns what to print instead of running where --help or --version is asked for; else sets the targets and returns
// "". Throws UsageError.
std::string parse(const CommandLine& line, const std::vector<std::string>& words);

}  // namespace cross_backend
