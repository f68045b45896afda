#include "lines.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <string_view>
#include <thread>
#include <utility>

namespace cross_backend {
namespace {

constexpr std::size_t kMostWaiting = 16;

// Ends this process and what it started.
[[noreturn]] void die() {
  if (getpgrp() == getpid()) kill(0, SIGKILL);
  _exit(1);
}

}  // namespace

Lines::Lines(double lease_s)
    : requests_(fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3)),
      answers_(fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3)),
      lease_s_(lease_s) {
  const int null = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  dup2(null, STDIN_FILENO);
  ::close(null);
  dup2(STDERR_FILENO, STDOUT_FILENO);
  std::thread([this] { read(); }).detach();
}

std::optional<std::string> Lines::next() {
  std::unique_lock<std::mutex> lock(mutex_);
  while (waiting_.empty()) {
    const auto came = [this, beats = beats_] { return !waiting_.empty() || beats_ != beats; };
    if (lease_s_ >= kForever) {
      changed_.wait(lock, came);
    } else if (!changed_.wait_for(lock, std::chrono::duration<double>(lease_s_), came)) {
      die();
    }
  }
  auto line = std::move(waiting_.front());
  waiting_.pop_front();
  changed_.notify_all();
  return line;
}

void Lines::say(const std::string& line) {
  const auto text = line + "\n";
  for (std::size_t done = 0; done < text.size();) {
    const auto size = ::write(answers_, text.data() + done, text.size() - done);
    if (size < 0 && errno != EINTR) die();  // nobody listens
    if (size > 0) done += static_cast<std::size_t>(size);
  }
}

// Runs in a thread of its own, so that the end is noticed in the middle of work.
void Lines::read() {
  std::array<char, 65536> block;
  std::string line;
  bool is_too_long = false;  // what comes up to the line's end is not kept
  for (;;) {
    const auto size = ::read(requests_, block.data(), block.size());
    if (size < 0 && errno == EINTR) continue;
    if (size <= 0) die();
    for (std::string_view left(block.data(), static_cast<std::size_t>(size)); !left.empty();) {
      const auto end = std::min(left.find('\n'), left.size());
      is_too_long = is_too_long || line.size() + end > kLongestLine;
      if (!is_too_long) line += left.substr(0, end);
      if (end == left.size()) break;
      put(is_too_long ? std::nullopt : std::optional(line));
      line.clear();
      is_too_long = false;
      left.remove_prefix(end + 1);
    }
  }
}

void Lines::put(std::optional<std::string> line) {
  std::unique_lock<std::mutex> lock(mutex_);
  changed_.wait(lock, [this] { return waiting_.size() < kMostWaiting; });
  if (line && line->empty()) {  // a sign of life
    ++beats_;
  } else {
    waiting_.push_back(std::move(line));
  }
  changed_.notify_all();
}

}  // namespace cross_backend
