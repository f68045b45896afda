// The table of runtimes, sorted by name: a new one is a file that defines its functions, and a row here.
#include "outcome.h"
#include "session.h"

namespace cross_backend {

std::unique_ptr<Session> open_atalla(const Artifact& artifact, const Opening& how);
std::unique_ptr<Session> open_executorch(const Artifact& artifact, const Opening& how);
std::vector<std::string> delegates_of_executorch();

const std::vector<Runtime>& runtimes() {
  static const std::vector<Runtime> table{
      {"atalla", open_atalla, [] { return std::vector<std::string>{}; }},
      {"executorch", open_executorch, delegates_of_executorch},
  };
  return table;
}

void check_count(std::size_t taken, std::size_t given) {
  if (given == taken) return;
  throw Failure(Outcome::kRunFail, "the program takes " + std::to_string(taken) + " input(s), and the sample has " +
                                       std::to_string(given));
}

}  // namespace cross_backend
