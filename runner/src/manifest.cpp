#include "manifest.h"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <tuple>

#include "digest.h"
#include "file.h"
#include "node.h"
#include "outcome.h"
#include "text.h"

namespace cross_backend {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr auto kFormat = "cross-backend-bundle";
constexpr std::uint64_t kVersion = 1;
// All far above what a real manifest has, and low enough to bound memory.
constexpr std::size_t kMaxManifestBytes = 16 << 20;
constexpr int kMaxDepth = 64;
constexpr int kMaxValues = 1'000'000;
constexpr std::size_t kMaxArtifacts = 100;
constexpr std::size_t kMaxTensors = 1024;
constexpr std::size_t kMaxRank = 32;
constexpr std::size_t kMaxNames = 4096;
constexpr std::uint64_t kMaxTensorBytes = std::uint64_t{2} << 30;
constexpr std::uint64_t kMaxSampleBytes = std::uint64_t{4} << 30;

// Reads one byte more than a manifest may have: some files hold more than they say.
std::string read_text(const fs::path& path) {
  std::string text(kMaxManifestBytes + 1, '\0');
  try {
    text.resize(File(path).read(text.data(), text.size()));
  } catch (const std::runtime_error& fault) {
    throw BundleError(std::string(fault.what()) + ".");
  }
  if (text.size() <= kMaxManifestBytes) return text;
  throw BundleError("its manifest.json is larger than " + std::to_string(kMaxManifestBytes >> 20) + " MiB.");
}

json parse(const std::string& text) {
  int values = 0;
  const auto bound = [&values](int depth, json::parse_event_t, const json&) {
    if (depth > kMaxDepth) throw BundleError("manifest.json is damaged: it is nested too deep.");
    if (++values > kMaxValues) throw BundleError("manifest.json is damaged: it holds too many values.");
    return true;
  };
  try {
    return json::parse(text, bound);
  } catch (const json::exception& fault) {
    throw BundleError(std::string("manifest.json is damaged: ") + fault.what());
  }
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

TensorFile read_tensor_file(const Node& row, const fs::path& folder) {
  TensorFile file{row["path"].inside(folder), row["dtype"].text(),       {},
                  row["offset"].count(),      row["size_bytes"].count(), row["sha256"].sha256()};
  for (const auto& extent : row["shape"].list(kMaxRank)) {
    const auto size = extent.count();
    if (size > std::numeric_limits<std::int32_t>::max()) extent.fail("does not fit");
    file.shape.push_back(static_cast<std::int64_t>(size));
  }
  const auto item = item_size(file.dtype);
  if (item == 0) row["dtype"].fail("names no known type");
  try {
    const auto elements = element_count(file.shape);
    if (file.size_bytes > kMaxTensorBytes || elements != file.size_bytes / item || file.size_bytes % item != 0) {
      row["size_bytes"].fail("does not agree with shape and dtype, or is more than 2 GiB");
    }
  } catch (const std::overflow_error&) {
    row["shape"].fail("does not fit");
  }
  return file;
}

std::vector<TensorFile> read_tensor_files(const Node& rows, const fs::path& folder) {
  std::vector<TensorFile> files;
  std::uint64_t left = kMaxSampleBytes;
  for (const auto& row : rows.list(kMaxTensors)) {
    files.push_back(read_tensor_file(row, folder));
    const auto& file = files.back();
    if (file.offset > left || file.size_bytes > left - file.offset) rows.fail("takes more than 4 GiB");
    left -= file.offset + file.size_bytes;
  }
  return files;
}

// Reads the sample's tensors; groups that older bundles lack stay empty.
void read_sample(const Node& sample, Bundle& bundle) {
  bundle.inputs = read_tensor_files(sample["inputs"], bundle.folder);
  bundle.expected = read_tensor_files(sample["expected"], bundle.folder);
  if (bundle.expected.empty()) sample["expected"].fail("is empty, so nothing could be verified");
  if (const auto rows = sample.find("expected2")) bundle.expected2 = read_tensor_files(*rows, bundle.folder);
  if (!bundle.expected2.empty()) bundle.inputs2 = read_tensor_files(sample["inputs2"], bundle.folder);
  if (const auto numbers = sample.find("rounding")) {
    bundle.rounding = read_tensor_files(*numbers, bundle.folder);
    const auto is_number = [](const TensorFile& one) { return one.dtype == "float64" && one.shape.empty(); };
    if (bundle.rounding.size() > 1 || !std::all_of(bundle.rounding.begin(), bundle.rounding.end(), is_number)) {
      numbers->fail("is not one float64");
    }
  }
  const auto rows = sample.find("scale");
  if (rows) bundle.scale = read_tensor_files(*rows, bundle.folder);
  if (bundle.scale.empty()) return;
  const auto fits = [](const TensorFile& scale, const TensorFile& expected) {
    return scale.dtype == "float32" && scale.shape == expected.shape;
  };
  const auto& [scale, expected] = std::tie(bundle.scale, bundle.expected);
  if (!std::equal(scale.begin(), scale.end(), expected.begin(), expected.end(), fits)) {
    rows->fail("is not float32 in the shapes of sample.expected");
  }
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
  artifact.runtime = target.substr(0, target.find_first_of(".?"));
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

Bundle read_bundle(const fs::path& folder) {
  std::error_code error;
  Bundle bundle;
  bundle.folder = fs::canonical(folder, error);
  if (error) throw BundleError("it does not exist.");
  if (!fs::is_directory(bundle.folder)) throw BundleError("it is not a folder. A zip file must be unpacked first.");
  const auto path = bundle.folder / "manifest.json";
  if (!is_inside(bundle.folder, path)) throw BundleError("its manifest.json leads out of the folder.");
  const auto manifest = parse(read_text(path));
  const Node root(manifest, "");
  check_version(root);
  bundle.model = root["model"].name();
  read_sample(root["sample"], bundle);
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

std::vector<Tensor> read_tensors(const std::vector<TensorFile>& files) {
  std::vector<Tensor> tensors;
  for (const auto& file : files) tensors.push_back(read_tensor(file));
  return tensors;
}

Tensor read_tensor(const TensorFile& description) {
  const auto name = description.path.filename().u8string();
  try {
    File file(description.path);
    if (file.size() != description.offset + description.size_bytes) {  // neither overflows: the manifest was checked
      throw BundleError(name + " is not as long as manifest.json says.");
    }
    if (digest_path(description.path) != description.sha256) {
      throw BundleError(name + " is not the file that manifest.json describes (its sha256 differs): it was changed.");
    }
    file.seek(description.offset);
    Tensor tensor{description.dtype, description.shape, std::vector<std::uint8_t>(description.size_bytes)};
    if (file.read(tensor.data.data(), tensor.data.size()) == tensor.data.size()) return tensor;
  } catch (const BundleError&) {
    throw;
  } catch (const std::runtime_error& fault) {
    throw BundleError(std::string(fault.what()) + ".");
  }
  throw BundleError(name + " became shorter while it was read.");
}

}  // namespace cross_backend
