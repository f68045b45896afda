// Flatbuffers from strangers, read with every place checked (https://flatbuffers.dev/internals). A field is known by
// its place in the schema, which never changes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace cross_backend {

// A table; the bytes live longer. Every function throws std::out_of_range where a place lies outside of the bytes, or
// where parts that lie on each other make much out of little.
class Flatbuffer {
 public:
  static Flatbuffer root(std::string_view bytes);

  // Returns a number of one byte; 0 where the field is left out.
  std::uint8_t byte(std::size_t slot) const;

  Flatbuffer table(std::size_t slot) const;
  std::vector<Flatbuffer> tables(std::size_t slot) const;  // none where the field is left out
  std::string text(std::size_t slot) const;

  // Returns the bytes of a vector whose items have `width` of them, and in them where they begin.
  std::string_view vector(std::size_t slot, std::size_t width = 1) const;
  std::size_t offset_of(std::string_view part) const { return static_cast<std::size_t>(part.data() - bytes_.data()); }

 private:
  using Allowance = std::shared_ptr<std::size_t>;  // bytes that may still be read

  Flatbuffer(std::string_view bytes, std::size_t at, Allowance left) : bytes_(bytes), at_(at), left_(std::move(left)) {}

  template <typename Number>
  Number number(std::size_t at) const;
  std::size_t field(std::size_t slot) const;
  std::size_t target(std::size_t at) const;
  void take(std::size_t size) const;

  std::string_view bytes_;
  std::size_t at_;
  Allowance left_;
};

}  // namespace cross_backend
