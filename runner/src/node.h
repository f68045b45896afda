// A JSON value and where it stands in the manifest, so that a complaint can name the place.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

namespace cross_backend {

// Every accessor throws BundleError where the value is of another kind.
class Node {
 public:
  Node(const nlohmann::json& value, std::string where) : value_(value), where_(std::move(where)) {}

  Node operator[](const std::string& key) const;

  // Returns the value of a key, or nothing where it is absent or null.
  std::optional<Node> find(const std::string& key) const;

  std::vector<Node> list(std::size_t most) const;
  std::vector<std::string> keys(std::size_t most) const;
  std::string text() const;

  // Returns a text that can be printed: no control characters, not empty, not long.
  std::string name() const;

  std::uint64_t count() const;
  double number() const;
  std::string sha256() const;

  // Returns the place in the folder that a relative path names. Links are followed, and must stay inside.
  std::filesystem::path inside(const std::filesystem::path& folder) const;

  [[noreturn]] void fail(const std::string& what) const;

 private:
  const nlohmann::json& object() const;

  const nlohmann::json& value_;
  std::string where_;
};

}  // namespace cross_backend
