// Lines: the standard streams of a process that is asked questions (POSIX).
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <mutex>
#include <optional>
#include <string>

namespace cross_backend {

inline constexpr std::size_t kLongestLine = 16 << 20;
inline constexpr double kForever = 1e9;  // seconds; such a lease has no end

// Keeps both streams for the protocol: what libraries print goes to standard error, and what they read is empty.
// The end of the input ends this process at once, with what it started; there is one for the process' life.
class Lines {
 public:
  explicit Lines(double lease_s);

  // Waits for a line and returns it without its end; nothing where it is too long. The process ends where none comes
  // within the lease.
  std::optional<std::string> next();

  // Writes a line.
  void say(const std::string& line);

 private:
  void read();
  void put(std::optional<std::string> line);

  int requests_;
  int answers_;
  double lease_s_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::optional<std::string>> waiting_;
  unsigned beats_ = 0;  // empty lines: signs of life
};

}  // namespace cross_backend
