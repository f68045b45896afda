// A regular file of a bundle, open for reading.
#pragma once

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>

namespace cross_backend {

// Whether a path leads, its links followed, to a place in a folder, which is canonical itself.
bool is_inside(const std::filesystem::path& folder, const std::filesystem::path& path);

// Whoever wrote the bundle chose what lies at the path. A pipe or a device, which could block or never end, is refused
// after it was opened without waiting, so that nothing can be swapped in between.
// Every function throws std::runtime_error, which names the file.
class File {
 public:
  explicit File(const std::filesystem::path& path);

  std::uint64_t size() const { return size_; }

  // Reads up to `size` bytes from where the last reading ended; fewer only at the end.
  std::size_t read(void* bytes, std::size_t size);

  void seek(std::uint64_t offset);

 private:
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };

  std::string name_;
  std::unique_ptr<std::FILE, Close> file_;
  std::uint64_t size_ = 0;
};

}  // namespace cross_backend
