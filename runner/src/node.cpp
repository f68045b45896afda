#include "node.h"

#include <algorithm>

#include "file.h"
#include "outcome.h"
#include "text.h"

namespace cross_backend {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr std::size_t kLongestName = 200;
// Both far above what a real document has, and low enough to bound memory.
constexpr int kMaxDepth = 64;
constexpr int kMaxValues = 1'000'000;

Node Node::operator[](const std::string& key) const {
  const auto found = object().find(key);
  if (found == value_.end()) fail("has no '" + key + "'");
  return {*found, complaint_, where_.empty() ? key : where_ + "." + key};
}

std::optional<Node> Node::find(const std::string& key) const {
  if (!object().contains(key) || value_[key].is_null()) return std::nullopt;
  return (*this)[key];
}

std::vector<Node> Node::list(std::size_t most) const {
  if (!value_.is_array()) fail("is not a list");
  if (value_.size() > most) fail("has more than " + std::to_string(most) + " entries");
  std::vector<Node> nodes;
  for (const auto& element : value_) {
    nodes.push_back({element, complaint_, where_ + "[" + std::to_string(nodes.size()) + "]"});
  }
  return nodes;
}

std::vector<std::string> Node::keys(std::size_t most) const {
  if (object().size() > most) fail("has more than " + std::to_string(most) + " entries");
  std::vector<std::string> names;
  for (const auto& [key, _] : value_.items()) names.push_back(key);
  return names;
}

std::string Node::text() const {
  if (!value_.is_string()) fail("is not a text");
  return value_.get<std::string>();
}

std::string Node::name() const {
  const auto given = text();
  if (given.empty() || given.size() > kLongestName || printable(given) != given) fail("is not a name");
  return given;
}

std::uint64_t Node::count() const {
  if (!value_.is_number_unsigned()) fail("is not a whole number from 0");
  return value_.get<std::uint64_t>();
}

int Node::count(int least, int most) const {
  const auto wanted = "is not a whole number from " + std::to_string(least) + " to " + std::to_string(most);
  if (!value_.is_number_unsigned() || value_.get<std::uint64_t>() > static_cast<std::uint64_t>(most)) fail(wanted);
  const auto given = value_.get<int>();
  if (given < least) fail(wanted);
  return given;
}

bool Node::flag() const {
  if (!value_.is_boolean()) fail("is neither true nor false");
  return value_.get<bool>();
}

double Node::number() const {
  if (!value_.is_number()) fail("is not a number");
  return value_.get<double>();
}

std::string Node::sha256() const {
  const auto digits = text();
  if (digits.size() != 64 || digits.find_first_not_of("0123456789abcdef") != std::string::npos) {
    fail("is not a SHA-256");
  }
  return digits;
}

fs::path Node::inside(const fs::path& folder) const {
  const auto given = text();
  const auto relative = fs::u8path(given);
  const bool odd = given.find('\0') != std::string::npos || given.find_first_of("\\:") != std::string::npos;
  const bool climbs = std::any_of(relative.begin(), relative.end(),
                                  [](const fs::path& part) { return part.empty() || part == "." || part == ".."; });
  if (given.empty() || odd || relative.has_root_path() || climbs) fail("is not a path inside the folder");
  if (!is_inside(folder, folder / relative)) fail("leads out of the folder");
  return folder / relative;
}

void Node::fail(const std::string& what) const {
  throw BundleError(complaint_ + (where_.empty() ? "it" : printable(where_)) + " " + what + ".");
}

json parse_document(const std::string& text, const std::string& complaint) {
  int values = 0;
  const auto bound = [&](int depth, json::parse_event_t, const json&) {
    if (depth > kMaxDepth) throw BundleError(complaint + "it is nested too deep.");
    if (++values > kMaxValues) throw BundleError(complaint + "it holds too many values.");
    return true;
  };
  try {
    return json::parse(text, bound);
  } catch (const json::exception& fault) {
    throw BundleError(complaint + fault.what());
  }
}

const json& Node::object() const {
  if (!value_.is_object()) fail("is not an object");
  return value_;
}

}  // namespace cross_backend
