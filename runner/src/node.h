// A JSON value and where it stands in its document, so that a complaint can name the place.
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
  // `complaint` comes before every complaint: "manifest.json is damaged: ". The value lives longer.
  Node(const nlohmann::json& value, std::string complaint) : Node(value, std::move(complaint), "") {}

  Node operator[](const std::string& key) const;

  // Returns the value of a key, or nothing where it is absent or null.
  std::optional<Node> find(const std::string& key) const;

  std::vector<Node> list(std::size_t most) const;
  std::vector<std::string> keys(std::size_t most) const;
  std::string text() const;

  // Returns a text that can be printed: no control characters, not empty, not long.
  std::string name() const;

  std::uint64_t count() const;
  int count(int least, int most) const;
  double number() const;
  bool flag() const;
  std::string sha256() const;

  // Returns the place in the folder that a relative path names. Links are followed, and must stay inside.
  std::filesystem::path inside(const std::filesystem::path& folder) const;

  [[noreturn]] void fail(const std::string& what) const;

 private:
  Node(const nlohmann::json& value, std::string complaint, std::string where)
      : value_(value), complaint_(std::move(complaint)), where_(std::move(where)) {}
  const nlohmann::json& object() const;

  const nlohmann::json& value_;
  std::string complaint_;
  std::string where_;
};

// Reads a document. Throws BundleError, which begins with `complaint`: it is none, nested too deep, or holds too much.
nlohmann::json parse_document(const std::string& text, const std::string& complaint);

}  // namespace cross_backend
