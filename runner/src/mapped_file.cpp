#include "mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "outcome.h"

namespace cross_backend {

Mapped::Mapped(const std::string& path) {
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  struct stat status{};
  bool is_there = file >= 0 && fstat(file, &status) == 0;
  size_ = static_cast<std::size_t>(status.st_size);
  if (is_there && size_ > 0) {
    bytes_ = mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, file, 0);
    is_there = bytes_ != MAP_FAILED;
  }
  const int fault = errno;
  if (file >= 0) ::close(file);
  if (!is_there) {
    throw Failure(Outcome::kLoadFail, std::string("Atalla cannot read the blob: ") + std::strerror(fault));
  }
}

Mapped::~Mapped() {
  if (size_ > 0) munmap(bytes_, size_);
}

}  // namespace cross_backend
