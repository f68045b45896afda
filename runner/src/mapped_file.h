// A file's bytes, which are read when they are looked at (POSIX).
#pragma once

#include <cstddef>
#include <string>

namespace cross_backend {

class Mapped {
 public:
  // Throws Failure where it cannot be read.
  explicit Mapped(const std::string& path);
  ~Mapped();
  Mapped(const Mapped&) = delete;
  Mapped& operator=(const Mapped&) = delete;

  const void* data() const { return size_ > 0 ? bytes_ : ""; }
  std::size_t size() const { return size_; }

 private:
  void* bytes_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace cross_backend
