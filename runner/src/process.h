// This program once more, as a child that speaks lines of text over pipes (POSIX).
#pragma once

#include <sys/types.h>

#include <stdexcept>
#include <string>
#include <vector>

namespace cross_backend {

// The child ended or its pipe broke; the text says how, with its last words.
class ProcessDied : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

// The child stayed silent; it was killed.
class ProcessSilent : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

class Process {
 public:
  // Starts this program's own executable. Throws std::runtime_error.
  explicit Process(const std::vector<std::string>& arguments);
  ~Process();
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  // Sends a line and waits for one. Throws ProcessDied, ProcessSilent.
  std::string ask(const std::string& line, double timeout_s);

 private:
  void read_available(int& descriptor, std::string& buffer);
  [[noreturn]] void report_death();

  pid_t pid_ = -1;
  int requests_ = -1;
  int answers_ = -1;
  int log_ = -1;
  std::string incoming_;
  std::string last_words_;  // the end of what it wrote to standard error
};

}  // namespace cross_backend
