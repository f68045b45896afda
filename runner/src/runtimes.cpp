// The table of runtimes, sorted by name: a new one is a file that defines its opener, and a row here.
#include "session.h"

namespace cross_backend {

std::unique_ptr<Session> open_executorch(const Artifact& artifact, int threads);

const std::vector<Runtime>& runtimes() {
  static const std::vector<Runtime> table{
      {"executorch", open_executorch},
  };
  return table;
}

}  // namespace cross_backend
