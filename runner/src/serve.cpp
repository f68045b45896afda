#include "serve.h"

#ifdef _WIN32

#include <iostream>

namespace cross_backend {

int serve(double) {
  std::cerr << "cross_backend_runner: --serve needs POSIX.\n";
  return 2;
}

}  // namespace cross_backend

#else

#include <sys/resource.h>
#include <unistd.h>

#include <csignal>

#include "lines.h"
#include "questions.h"

namespace cross_backend {

int serve(double lease_s) {
  signal(SIGINT, SIG_IGN);  // Ctrl-C is for the parent, which decides
  signal(SIGPIPE, SIG_IGN);
  if (!isatty(STDIN_FILENO)) setpgid(0, 0);  // a group of its own, so that what it started can be ended with it
  const rlimit no_core{0, 0};
  setrlimit(RLIMIT_CORE, &no_core);  // a crash here is an outcome
  Lines lines(lease_s);
  LocalBench bench;
  for (;;) {
    const auto line = lines.next();
    lines.say(line ? answer(bench, *line)
                   : refusal("a question is at most " + std::to_string(kLongestLine >> 20) + " MiB long."));
  }
}

}  // namespace cross_backend

#endif
