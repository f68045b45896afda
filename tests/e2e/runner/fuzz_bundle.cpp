// Reads hostile bundles, all in one process, with the runner's own sources: FOLDER, records on standard input.
//
// A record is a number of files, and of each: its kind, its path in the folder, what it holds. The files are put over
// the sound bundle that lies there, the bundle is read, opened by runtimes that give what is expected, or something
// else, and reported; then the folder is as before. A number is 4 bytes, little-endian. At the end comes one JSON
// document: how many were read and refused, how many artifacts ended how, and by how much memory grew.
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iostream>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>

#include "bench.h"
#include "outcome.h"
#include "report.h"
#include "text.h"

namespace cross_backend {
namespace {

namespace fs = std::filesystem;
enum class Kind : std::uint32_t { kFile, kLink, kPipe, kFolder, kNothing };
using Files = std::map<fs::path, std::string>;

std::vector<Tensors> expectations;  // of the bundle that is read now
std::uint32_t turn = 0;             // which record it is

// Gives what is expected for each input in turn, or what differs from it in one way.
class Pretender final : public Session {
 public:
  std::vector<Tensor> takes() const override { return {}; }
  void bind(const std::vector<Tensor>&) override { ++bound_; }
  void run() override {}
  void reset() override { bound_ = 0; }
  std::vector<Tensor> outputs() const override {
    auto made = expectations.empty() ? Tensors{} : expectations[(bound_ - 1) % expectations.size()];
    if (made.empty()) return made;
    auto& first = made.front();
    switch (turn % 8) {
      case 0:
        if (!first.data.empty()) first.data.back() ^= static_cast<std::uint8_t>(1U << (turn / 8 % 8));
        break;
      case 1:
        if (!first.data.empty()) std::memset(first.data.data(), 0xFF, first.data.size());  // NaN, or -1
        break;
      case 2:
        made.push_back(first);
        break;
      case 3:
        first.shape.push_back(1);
        break;
      case 4:
        first.dtype = "bfloat16";
        break;
      default:
        break;
    }
    return made;
  }
  std::vector<Timing> timings() const override { return {}; }

 private:
  std::size_t bound_ = 0;
};

std::unique_ptr<Session> pretend(const Artifact& artifact, const Opening&) {
  if (turn % 16 == 5) throw Failure(Outcome::kLoadFail, "\x1b[2Jit does not open\n" + artifact.title);
  return std::make_unique<Pretender>();
}

[[noreturn]] void fail(const std::string& what) {
  std::cerr << "record " << turn << ": " << what << "\n";
  std::exit(1);
}

// A line is what it looks like: nothing in it is obeyed by a terminal or hidden from a reader.
void check_line(const std::string& line) {
  if (line.empty() || line.find('\n') != std::string::npos || plain(line) != line) fail("no plain line: " + line);
}

struct Count {
  std::uint64_t read = 0, refused = 0;
  std::map<std::string, std::uint64_t> outcomes;
};

Result result_of(const Bundle& bundle, const Artifact& artifact) {
  Result result;
  result.artifact = artifact;
  try {
    LocalBench bench;
    bench.open({artifact, 1, bundle.sample.inputs});
    const Limits limits{artifact.tolerance, artifact.mean_tolerance.value_or(Limits{}.mean)};
    const auto found = bench.verify(bundle.sample, limits);
    result.comparison = found.comparison;
    result.head = found.head;
    if (!found.comparison.right) throw Failure(Outcome::kMismatch, "wrong outputs: " + found.comparison.reason);
    if (!found.comparison.unproved.empty()) throw Failure(Outcome::kNotProved, found.comparison.unproved);
    result.rounds = {{1000, 1100}, {1000}};
    result.latency = latency_ms(result.rounds);
    result.rank = 1;
  } catch (const Failure& failure) {
    check_line(failure.what());
    result.outcome = failure.outcome;
    result.reason = failure.what();
  }
  return result;
}

void read(const fs::path& folder, Count& count) {
  const auto bundle = read_bundle(folder);
  for (const auto& order : bundle.orders) choose(bundle, order.first, {});
  for (const auto& artifact : bundle.artifacts) choose(bundle, "", {artifact.name});
  const auto& sample = bundle.sample;
  for (const auto* files : {&sample.inputs, &sample.inputs2, &sample.scale, &sample.rounding}) read_tensors(*files);
  expectations = {read_tensors(sample.expected), read_tensors(sample.expected2)};
  if (sample.expected2.empty()) expectations.pop_back();
  Panel panel;
  for (const auto& artifact : bundle.artifacts) {
    panel.results.push_back(result_of(bundle, artifact));
    ++count.outcomes[name_of(panel.results.back().outcome)];
  }
  const Settings settings;
  const Machine machine{"a processor", "linux", "x86_64", 1, 1, "", ""};
  const Report report{bundle, panel, settings, machine};
  const auto text = text_report(report, true);
  if (plain(text) != text) fail("no plain report");
  if (nlohmann::json::parse(json_report(report)).at("results").size() != panel.results.size()) fail("a row is lost");
  ++count.read;
}

std::uint32_t number() {
  std::array<unsigned char, 4> bytes{};
  std::cin.read(reinterpret_cast<char*>(bytes.data()), bytes.size());
  return bytes[0] | bytes[1] << 8U | bytes[2] << 16U | static_cast<std::uint32_t>(bytes[3]) << 24U;
}

std::string text() {
  std::string found(number(), '\0');
  std::cin.read(found.data(), static_cast<std::streamsize>(found.size()));
  return found;
}

std::string content(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void put(const fs::path& path, Kind kind, const std::string& holds) {
  fs::remove_all(path);
  if (kind == Kind::kFile) std::ofstream(path, std::ios::binary) << holds;
  if (kind == Kind::kLink) fs::create_symlink(holds, path);
  if (kind == Kind::kPipe && mkfifo(path.c_str(), 0600) != 0) fail("there is no pipe");
  if (kind == Kind::kFolder) fs::create_directory(path);
}

void restore(const Files& sound, const std::vector<fs::path>& changed) {
  for (const auto& path : changed) fs::remove_all(path);
  for (const auto& [path, holds] : sound) {
    if (fs::exists(path)) continue;
    fs::create_directories(path.parent_path());
    put(path, Kind::kFile, holds);
  }
}

// The bytes that this process holds now.
std::uint64_t held() {
  std::uint64_t all = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> all >> resident;
  return resident * static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
}

int run(const fs::path& folder) {
  Files sound;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (entry.is_regular_file()) sound[entry.path()] = content(entry.path());
  }
  Count count;
  std::uint64_t before = 0, most = 0;
  for (auto files = number(); std::cin; files = number(), ++turn) {
    std::vector<fs::path> changed;
    for (; files > 0; --files) {
      const auto kind = static_cast<Kind>(number());
      changed.push_back(folder / fs::u8path(text()));
      put(changed.back(), kind, text());
    }
    try {
      read(folder, count);
    } catch (const BundleError& error) {
      ++count.refused;
      check_line(printable(error.what()));
    } catch (const UsageError& error) {
      fail(std::string("the user is blamed: ") + error.what());
    } catch (const std::exception& error) {
      fail(std::string("what is raised is not ours: ") + error.what());
    }
    restore(sound, changed);
    if (turn == 500) before = held();  // all that is made once is there
    if (turn > 500) most = std::max(most, held());
  }
  const auto grown = most > before ? most - before : 0;
  std::cout << nlohmann::json{
      {"read", count.read}, {"refused", count.refused}, {"outcomes", count.outcomes}, {"grown_bytes", grown}};
  return 0;
}

}  // namespace

const std::vector<Runtime>& runtimes() {
  const auto none = [] { return std::vector<std::string>{}; };
  static const std::vector<Runtime> all{{"executorch", pretend, none}, {"atalla", pretend, none}};
  return all;
}

}  // namespace cross_backend

int main(int, char** arguments) { return cross_backend::run(arguments[1]); }
