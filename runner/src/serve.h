// Serve: this program as a bench, for a parent on this machine or another that asks over a pipe.
#pragma once

namespace cross_backend {

// Answers the questions on standard input until it ends, which ends this process and what it started at once, even in
// the middle of work; so does a silence of `lease_s` seconds while there is nothing to answer.
// Returns the exit status where the system has no such pipes.
int serve(double lease_s);

}  // namespace cross_backend
