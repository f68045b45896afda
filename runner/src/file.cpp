#include "file.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <stdexcept>
#ifdef _WIN32
#include <io.h>
#else
#include <unistd.h>
#endif

namespace cross_backend {
namespace {

#ifdef _WIN32
using Status = struct _stat64;
int open_at_once(const std::filesystem::path& path) { return _wopen(path.c_str(), _O_RDONLY | _O_BINARY); }
int status_of(int file, Status* status) { return _fstat64(file, status); }
bool is_regular(const Status& status) { return (status.st_mode & _S_IFMT) == _S_IFREG; }
std::FILE* stream_of(int file) { return _fdopen(file, "rb"); }
void close_file(int file) { _close(file); }
int seek_to(std::FILE* file, std::uint64_t offset) {
  return _fseeki64(file, static_cast<std::int64_t>(offset), SEEK_SET);
}
#else
using Status = struct stat;
int open_at_once(const std::filesystem::path& path) {
  return ::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
}
int status_of(int file, Status* status) { return fstat(file, status); }
bool is_regular(const Status& status) { return S_ISREG(status.st_mode); }
std::FILE* stream_of(int file) { return fdopen(file, "rb"); }
void close_file(int file) { ::close(file); }
int seek_to(std::FILE* file, std::uint64_t offset) { return fseeko(file, static_cast<off_t>(offset), SEEK_SET); }
#endif

}  // namespace

bool is_inside(const std::filesystem::path& folder, const std::filesystem::path& path) {
  std::error_code error;
  const auto real = std::filesystem::weakly_canonical(path, error);
  return !error && std::mismatch(folder.begin(), folder.end(), real.begin(), real.end()).first == folder.end();
}

File::File(const std::filesystem::path& path) : name_(path.filename().u8string()) {
  const int file = open_at_once(path);
  if (file < 0 && errno == ENOENT) throw std::runtime_error(name_ + " is missing");
  if (file < 0) throw std::runtime_error(name_ + " cannot be opened: " + std::strerror(errno));
  Status status{};
  const bool is_known = status_of(file, &status) == 0;
  if (is_known && is_regular(status)) file_.reset(stream_of(file));
  if (!file_) close_file(file);
  if (is_known && !is_regular(status)) throw std::runtime_error(name_ + " is not a regular file");
  if (!file_) throw std::runtime_error(name_ + " cannot be read");
  size_ = static_cast<std::uint64_t>(status.st_size);
}

std::size_t File::read(void* bytes, std::size_t size) {
  const auto taken = std::fread(bytes, 1, size, file_.get());
  if (taken < size && std::ferror(file_.get())) throw std::runtime_error(name_ + " cannot be read");
  return taken;
}

void File::seek(std::uint64_t offset) {
  if (seek_to(file_.get(), offset) != 0) throw std::runtime_error(name_ + " cannot be read");
}

}  // namespace cross_backend
