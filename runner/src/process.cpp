#include "process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <climits>
#include <cmath>
#include <cstring>
#include <thread>
#ifdef __APPLE__
#include <mach-o/dyld.h>
#endif

#include "text.h"

extern char** environ;

namespace cross_backend {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::size_t kLastWords = 4096;
constexpr auto kReapPatience = std::chrono::seconds(5);

std::string own_path() {
#ifdef __APPLE__
  std::array<char, PATH_MAX> path{};
  auto size = static_cast<std::uint32_t>(path.size());
  if (_NSGetExecutablePath(path.data(), &size) != 0) throw std::runtime_error("its own path is too long");
  return path.data();
#else
  return "/proc/self/exe";
#endif
}

void close_quietly(int& descriptor) {
  if (descriptor >= 0) close(descriptor);
  descriptor = -1;
}

// A pipe that children do not inherit, clear of the standard streams' numbers.
struct Pipe {
  int read_end = -1;
  int write_end = -1;

  Pipe() {
    std::array<int, 2> ends{};
    if (pipe(ends.data()) != 0) throw std::runtime_error(std::string("no pipe: ") + std::strerror(errno));
    read_end = fcntl(ends[0], F_DUPFD_CLOEXEC, 3);
    write_end = fcntl(ends[1], F_DUPFD_CLOEXEC, 3);
    close(ends[0]);
    close(ends[1]);
    if (read_end < 0 || write_end < 0) throw std::runtime_error(std::string("no pipe: ") + std::strerror(errno));
  }
  ~Pipe() {
    close_quietly(read_end);
    close_quietly(write_end);
  }
};

// Ends a child and what it started: once it serves, it leads a group of its own.
void end_all(pid_t child) {
  kill(-child, SIGKILL);
  kill(child, SIGKILL);
}

int release(int& descriptor) {
  const int given = descriptor;
  descriptor = -1;
  return given;
}

std::string last_line(const std::string& text) {
  const auto end = text.find_last_not_of(" \r\n");
  if (end == std::string::npos) return "";
  const auto before = text.find_last_of('\n', end);
  const auto start = before == std::string::npos ? 0 : before + 1;
  return printable(text.substr(start, end + 1 - start));
}

}  // namespace

Process::Process(const std::vector<std::string>& arguments) {
  signal(SIGPIPE, SIG_IGN);  // a dead child is noticed by its answer
  Pipe requests;
  Pipe answers;
  Pipe log;
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, requests.read_end, STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, answers.write_end, STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, log.write_end, STDERR_FILENO);
  const auto path = own_path();
  std::vector<char*> words{const_cast<char*>("cross_backend_runner")};
  for (const auto& argument : arguments) words.push_back(const_cast<char*>(argument.c_str()));
  words.push_back(nullptr);
  const int error = posix_spawn(&pid_, path.c_str(), &actions, nullptr, words.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) throw std::runtime_error(std::string("no process: ") + std::strerror(error));
  requests_ = release(requests.write_end);
  answers_ = release(answers.read_end);
  log_ = release(log.read_end);
  for (const int descriptor : {answers_, log_}) fcntl(descriptor, F_SETFL, O_NONBLOCK);
}

Process::~Process() {
  close_quietly(requests_);
  close_quietly(answers_);
  close_quietly(log_);
  if (pid_ > 0) {
    end_all(pid_);
    while (waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
    }
  }
}

std::string Process::ask(const std::string& line, double timeout_s) {
  const auto deadline = Clock::now() + std::chrono::duration<double>(timeout_s);
  const auto request = line + "\n";
  for (std::size_t done = 0; done < request.size();) {  // the child reads even while it works
    const auto size = write(requests_, request.data() + done, request.size() - done);
    if (size < 0 && errno != EINTR) report_death();
    if (size > 0) done += static_cast<std::size_t>(size);
  }
  for (;;) {
    const auto end = incoming_.find('\n');
    if (end != std::string::npos) {
      auto answer = incoming_.substr(0, end);
      incoming_.erase(0, end + 1);
      return answer;
    }
    if (answers_ < 0) report_death();
    const double left_ms = std::chrono::duration<double, std::milli>(deadline - Clock::now()).count();
    if (left_ms <= 0) {
      end_all(pid_);
      throw ProcessSilent("no answer in time");
    }
    std::array<pollfd, 2> watched{{{answers_, POLLIN, 0}, {log_, POLLIN, 0}}};
    poll(watched.data(), watched.size(), static_cast<int>(std::ceil(std::min(left_ms, 1e6))));
    read_available(answers_, incoming_);
    read_available(log_, last_words_);
    if (last_words_.size() > kLastWords) last_words_.erase(0, last_words_.size() - kLastWords);
  }
}

void Process::read_available(int& descriptor, std::string& buffer) {
  std::array<char, 65536> block;
  while (descriptor >= 0) {
    const auto size = ::read(descriptor, block.data(), block.size());
    if (size > 0) {
      buffer.append(block.data(), static_cast<std::size_t>(size));
      if (static_cast<std::size_t>(size) < block.size()) return;
    } else if (size == 0) {
      close_quietly(descriptor);
    } else if (errno != EINTR) {
      return;  // nothing there for now
    }
  }
}

void Process::report_death() {
  int status = 0;
  const auto deadline = Clock::now() + kReapPatience;
  pid_t ended = 0;
  while ((ended = waitpid(pid_, &status, WNOHANG)) == 0 && Clock::now() < deadline) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  read_available(log_, last_words_);
  const auto words = last_line(last_words_);
  std::string how = "its process closed its pipe";
  if (ended == pid_) {
    pid_ = -1;
    how = WIFSIGNALED(status) ? std::string("its process crashed (") + strsignal(WTERMSIG(status)) + ")"
                              : "its process ended with status " + std::to_string(WEXITSTATUS(status));
  }
  throw ProcessDied(how + (words.empty() ? "" : ": " + words));
}

}  // namespace cross_backend
