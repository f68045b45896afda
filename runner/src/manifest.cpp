#include "manifest.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "file.h"
#include "node.h"
#include "outcome.h"
#include "text.h"

namespace cross_backend {
namespace {

namespace fs = std::filesystem;

constexpr auto kFormat = "cross-backend-bundle";
constexpr auto kDamaged = "manifest.json is damaged: ";
constexpr std::uint64_t kVersion = 1;
// All far above what a real manifest has, and low enough to bound memory.
constexpr std::size_t kMaxManifestBytes = 16 << 20;
constexpr std::size_t kMaxArtifacts = 100;
constexpr std::size_t kMaxTensors = 1024;
constexpr std::size_t kMaxNames = 4096;
constexpr std::uint64_t kMaxSampleBytes = std::uint64_t{4} << 30;

// Reads one byte more than a manifest may have: some files hold more than they say. Takes memory for what is there.
std::string read_text(const fs::path& path) {
  constexpr std::size_t kBlock = 64 << 10;
  std::string text;
  try {
    File file(path);
    for (std::size_t taken = kBlock; taken == kBlock && text.size() <= kMaxManifestBytes;) {
      const auto before = text.size();
      text.resize(before + kBlock);
      taken = file.read(&text[before], kBlock);
      text.resize(before + taken);
    }
  } catch (const std::runtime_error& fault) {
    throw BundleError(std::string(fault.what()) + ".");
  }
  if (text.size() <= kMaxManifestBytes) return text;
  throw BundleError("its manifest.json is larger than " + std::to_string(kMaxManifestBytes >> 20) + " MiB.");
}

void check_version(const Node& root) {
  if (root["format"].text() != kFormat) root["format"].fail(std::string("is not ") + kFormat);
  const auto version = root["version"].count();
  if (version > kVersion) {
    throw BundleError("its format version is " + std::to_string(version) + "; this runner reads up to " +
                      std::to_string(kVersion) + ". Build a newer runner.");
  }
  if (version == 0) root["version"].fail("is 0");
}

std::vector<TensorFile> read_tensor_files(const Node& rows, const fs::path& folder) {
  std::vector<TensorFile> files;
  std::uint64_t left = kMaxSampleBytes;
  for (const auto& row : rows.list(kMaxTensors)) {
    files.push_back(read_tensor_file(row, row["path"].inside(folder)));
    const auto& file = files.back();
    if (file.offset > left || file.size_bytes > left - file.offset) rows.fail("takes more than 4 GiB");
    left -= file.offset + file.size_bytes;
  }
  return files;
}

// Reads the sample's tensors; groups that older bundles lack stay empty.
TestCase read_sample(const Node& sample, const fs::path& folder) {
  TestCase read;
  read.inputs = read_tensor_files(sample["inputs"], folder);
  read.expected = read_tensor_files(sample["expected"], folder);
  if (read.expected.empty()) sample["expected"].fail("is empty, so nothing could be verified");
  if (const auto rows = sample.find("expected2")) read.expected2 = read_tensor_files(*rows, folder);
  if (!read.expected2.empty()) read.inputs2 = read_tensor_files(sample["inputs2"], folder);
  if (const auto numbers = sample.find("rounding")) {
    read.rounding = read_tensor_files(*numbers, folder);
    const auto is_number = [](const TensorFile& one) { return one.dtype == "float64" && one.shape.empty(); };
    if (read.rounding.size() > 1 || !std::all_of(read.rounding.begin(), read.rounding.end(), is_number)) {
      numbers->fail("is not one float64");
    }
  }
  const auto rows = sample.find("scale");
  if (rows) read.scale = read_tensor_files(*rows, folder);
  if (read.scale.empty()) return read;
  const auto fits = [](const TensorFile& scale, const TensorFile& expected) {
    return scale.dtype == "float32" && scale.shape == expected.shape;
  };
  if (!std::equal(read.scale.begin(), read.scale.end(), read.expected.begin(), read.expected.end(), fits)) {
    rows->fail("is not float32 in the shapes of sample.expected");
  }
  return read;
}

// Reads the calls after the first. Their tensors stand in one list: step1_0.npy, step1.expected_0.npy, and so on.
std::vector<TestCase> read_steps(const Node& rows, const fs::path& folder) {
  std::vector<TestCase> steps;
  for (const auto& row : rows.list(kMaxTensors)) {
    const auto path = row["path"].inside(folder);
    const auto name = path.filename().u8string();
    const auto group = name.substr(0, name.rfind('_'));
    const auto next = "step" + std::to_string(steps.size() + 1);
    if (group == next) steps.emplace_back();
    if (steps.empty()) continue;
    const auto step = "step" + std::to_string(steps.size());
    std::vector<TensorFile>* files = nullptr;
    if (group == step) files = &steps.back().inputs;
    if (group == step + ".expected") files = &steps.back().expected;
    if (group == step + ".scale") files = &steps.back().scale;
    if (group == step + ".rounding") files = &steps.back().rounding;
    if (files != nullptr) files->push_back(read_tensor_file(row, path));
  }
  const auto is_bare = [](const TestCase& one) { return one.expected.empty(); };
  if (std::any_of(steps.begin(), steps.end(), is_bare)) rows.fail("holds a call without what it must give");
  return steps;
}

double tolerance_in(const Node& number) {
  if (number.number() < 0) number.fail("is negative");
  return number.number();
}

Artifact read_artifact(const Node& row, const fs::path& folder) {
  const auto target = row["target"].name();
  Artifact artifact;
  artifact.name = row["name"].name();
  artifact.target = target;
  artifact.runtime = runtime_name(target);
  artifact.title = printable(row["title"].text());
  artifact.payload = row["path"].inside(folder);
  artifact.size_bytes = row["size_bytes"].count();
  artifact.sha256 = row["sha256"].sha256();
  artifact.tolerance = tolerance_in(row["tolerance"]);
  if (const auto mean = row.find("mean_tolerance")) artifact.mean_tolerance = tolerance_in(*mean);
  const auto placement = row["placement"];
  for (const auto& id : placement["delegates"].keys(kMaxNames)) artifact.delegates.push_back(id);
  if (const auto coverage = placement.find("coverage")) artifact.coverage = coverage->number();
  if (const auto export_s = row.find("export_s")) artifact.export_s = export_s->number();
  return artifact;
}

void read_orders(const Node& rows, Bundle& bundle, const std::set<std::string>& names) {
  for (const auto& platform : rows.keys(kMaxNames)) {
    auto& order = bundle.orders[platform];
    for (const auto& entry : rows[platform].list(kMaxArtifacts)) {
      if (names.count(entry.text()) == 0) entry.fail("names no artifact");
      order.push_back(entry.text());
    }
  }
}

}  // namespace

std::string runtime_name(const std::string& target) { return target.substr(0, target.find_first_of(".?")); }

Bundle read_bundle(const fs::path& folder) {
  std::error_code error;
  Bundle bundle;
  bundle.folder = fs::canonical(folder, error);
  if (error) throw BundleError("it does not exist.");
  if (!fs::is_directory(bundle.folder))
    throw BundleError("it is neither a folder nor a .pte or .bpte file. A zip file must be unpacked first.");
  const auto path = bundle.folder / "manifest.json";
  if (!is_inside(bundle.folder, path)) throw BundleError("its manifest.json leads out of the folder.");
  const auto manifest = parse_document(read_text(path), kDamaged);
  const Node root(manifest, kDamaged);
  check_version(root);
  bundle.model = root["model"].name();
  bundle.sample = read_sample(root["sample"], bundle.folder);
  if (const auto state = root.find("state"); state && !state->list(kMaxTensors).empty()) {
    bundle.sample.has_state = true;
    if (const auto steps = root["sample"].find("steps")) bundle.sample.steps = read_steps(*steps, bundle.folder);
  }
  std::set<std::string> names;
  for (const auto& row : root["artifacts"].list(kMaxArtifacts)) {
    bundle.artifacts.push_back(read_artifact(row, bundle.folder));
    if (!names.insert(bundle.artifacts.back().name).second) row["name"].fail("is not unique");
  }
  read_orders(root["orders"], bundle, names);
  return bundle;
}

std::vector<Artifact> choose(const Bundle& bundle, const std::string& platform, const std::vector<std::string>& only) {
  std::vector<Artifact> ordered = bundle.artifacts;
  if (!platform.empty()) {
    const auto order = bundle.orders.find(platform);
    if (order == bundle.orders.end()) {
      std::vector<std::string> known;
      for (const auto& [name, _] : bundle.orders) known.push_back(name);
      throw UsageError("the bundle was not made for platform '" + platform + "'; it has " +
                       (known.empty() ? "none" : join(known)) + ".");
    }
    ordered.clear();
    for (const auto& name : order->second) {
      ordered.push_back(*std::find_if(bundle.artifacts.begin(), bundle.artifacts.end(),
                                      [&](const Artifact& artifact) { return artifact.name == name; }));
    }
  }
  if (only.empty()) return ordered;
  std::vector<Artifact> chosen;
  for (const auto& wanted : only) {
    const auto found = std::find_if(ordered.begin(), ordered.end(), [&](const Artifact& artifact) {
      return artifact.name == wanted || artifact.target == wanted;
    });
    if (found == ordered.end()) {
      std::vector<std::string> known;
      for (const auto& artifact : ordered) known.push_back(artifact.name);
      throw UsageError("there is no artifact '" + wanted + "'; there are " + (known.empty() ? "none" : join(known)) +
                       ".");
    }
    chosen.push_back(*found);
  }
  return chosen;
}

}  // namespace cross_backend
