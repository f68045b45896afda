#include "options.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <set>
#include <sstream>

#include "outcome.h"

namespace cross_backend {
namespace {

// Negative numbers are values.
bool is_option(const std::string& word) {
  return word.size() > 1 && word[0] == '-' && std::string("0123456789.").find(word[1]) == std::string::npos;
}

template <typename Type>
bool holds(const Option& option) {
  return std::holds_alternative<Type*>(option.target);
}

std::string wanted(const Option& option) {
  if (holds<double>(option)) return "a positive number";
  if (!holds<int>(option)) return option.kind;
  return "a whole number from " + std::to_string(option.lowest) + " to " + std::to_string(option.highest);
}

// Returns how an option is known that was written with underscores.
std::string dashed(std::string name) {
  std::replace(name.begin(), name.end(), '_', '-');
  return name;
}

bool is_called(const Option& option, const std::string& name) {
  return dashed(name) == option.name || (!option.other.empty() && dashed(name) == option.other);
}

double number(const Option& option, const std::string& name, const std::string& text) {
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);  // infinite where it is too large
  const bool whole = holds<int>(option);
  const bool read = !text.empty() && *end == '\0' &&
                    text.find_first_not_of(whole ? "+-0123456789" : "+-.0123456789eE") == std::string::npos;
  const bool allowed = whole ? value >= option.lowest && value <= option.highest : value > 0 && std::isfinite(value);
  if (!read || !allowed) throw UsageError(name + " must be " + wanted(option) + ", not '" + text + "'.");
  return value;
}

void set(const Option& option, const std::string& name, const std::string& text) {
  if (auto* count = std::get_if<int*>(&option.target)) **count = static_cast<int>(number(option, name, text));
  if (auto* real = std::get_if<double*>(&option.target)) **real = number(option, name, text);
  if (auto* word = std::get_if<std::string*>(&option.target)) **word = text;
  if (auto* list = std::get_if<std::vector<std::string>*>(&option.target)) (*list)->push_back(text);
}

std::string help(const CommandLine& line) {
  std::ostringstream text;
  const auto row = [&](const std::string& name, const std::string& what) {
    text << "  " << name << std::string(name.size() < 22 ? 22 - name.size() : 1, ' ') << what;
  };
  text << line.about << "\nUsage: cross_backend_runner [OPTIONS] " << line.positional.name << "\n\n";
  row(line.positional.name, line.positional.help + "\n\nOptions:\n");
  row("-h, --help", "show this help message and exit\n");
  for (const auto& option : line.options) {
    if (option.help.empty()) continue;
    const std::string more = holds<std::vector<std::string>>(option) ? " ..." : "";
    row(option.name + (option.kind.empty() ? "" : " " + option.kind) + more, option.help);
    if (const auto* count = std::get_if<int*>(&option.target)) text << " (default: " << **count << ")";
    if (const auto* real = std::get_if<double*>(&option.target)) text << " (default: " << **real << ")";
    text << "\n";
  }
  row("--version", "show the version and exit\n");
  return text.str();
}

}  // namespace

std::string parse(const CommandLine& line, const std::vector<std::string>& words) {
  const auto dashes = std::find(words.begin(), words.end(), "--");  // what follows it is no option
  for (auto word = words.begin(); word != dashes; ++word) {
    if (*word == "-h" || *word == "--help") return help(line);
    if (*word == "--version") return line.version + "\n";
  }
  std::set<std::string> given;
  const auto assign = [&](const Option& option, const std::string& name, const std::string& text) {
    if (!given.insert(option.name).second && !holds<std::vector<std::string>>(option)) {
      throw UsageError(name + " is given twice, the second time as '" + text + "'.");
    }
    set(option, name, text);
  };
  for (auto word = words.begin(); word != words.end(); ++word) {
    if (word == dashes) continue;
    if (word > dashes || !is_option(*word)) {
      assign(line.positional, line.positional.name, *word);
      continue;
    }
    const auto equals = std::min(word->find('='), word->size());
    const auto name = word->substr(0, equals), value = word->substr(std::min(equals + 1, word->size()));
    const auto row =
        std::find_if(line.options.begin(), line.options.end(), [&](const Option& one) { return is_called(one, name); });
    const auto* option = row != line.options.end()          ? &*row
                         : is_called(line.positional, name) ? &line.positional
                                                            : nullptr;
    if (!option) throw UsageError("there is no option " + name + "; see --help.");
    if (const auto* flag = std::get_if<bool*>(&option->target)) {
      if (equals < word->size()) throw UsageError(name + " takes no value, but has '" + value + "'.");
      **flag = true;
      continue;
    }
    const auto follows = [&] { return word + 1 != words.end() && word + 1 != dashes && !is_option(word[1]); };
    if (equals < word->size() ? value.empty() : !follows()) {
      throw UsageError(name + " lacks its value, " + wanted(*option) + ".");
    }
    assign(*option, name, value.empty() ? *++word : value);
    // A list leaves the last word to a positional that is still to come.
    while (holds<std::vector<std::string>>(*option) && follows() &&
           (given.count(line.positional.name) || word + 2 != words.end())) {
      assign(*option, name, *++word);
    }
  }
  if (*line.is_alone) return "";
  if (!given.count(line.positional.name)) {
    throw UsageError(line.positional.name + " is required: " + line.positional.help + ".");
  }
  return "";
}

}  // namespace cross_backend
