// Atalla where its kernels are not compiled in: every blob keeps its row, with the reason.
#include "outcome.h"
#include "session.h"

namespace cross_backend {

std::unique_ptr<Session> open_atalla(const Artifact&, const Opening&) {
  throw Unavailable("this runner was built without Atalla's kernels",
                    "build it in a checkout that has src/atalla, without -DRUNNER_ATALLA=OFF");
}

}  // namespace cross_backend
