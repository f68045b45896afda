#include "bundled_program.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <iterator>
#include <stdexcept>
#include <utility>

#include "flatbuffer.h"
#include "limits.h"
#include "outcome.h"
#include "program_file.h"

namespace cross_backend {
namespace {

namespace fs = std::filesystem;

constexpr auto kMethod = "forward";
constexpr auto kBundledVersion = "BP08";
constexpr std::size_t kMaxDescriptionBytes = 16 << 20;
constexpr std::uint8_t kTensor = 1;  // its place in the union of values; the others are plain numbers

// Number in scalar_type.fbs → NumPy's name.
constexpr std::array<std::pair<int, const char*>, 13> kScalarTypes{{
    {0, "uint8"},
    {1, "int8"},
    {2, "int16"},
    {3, "int32"},
    {4, "int64"},
    {5, "float16"},
    {6, "float32"},
    {7, "float64"},
    {11, "bool"},
    {15, "bfloat16"},
    {27, "uint16"},
    {28, "uint32"},
    {29, "uint64"},
}};

const char* scalar_type_of(std::uint8_t number) {
  for (const auto& [known, name] : kScalarTypes) {
    if (number == known) return name;
  }
  throw Unsupported("a test case holds a tensor of type " + std::to_string(number) + ", which NumPy lacks.");
}

std::vector<TensorFile> tensors_of(const std::vector<Flatbuffer>& values, const fs::path& path) {
  std::vector<TensorFile> files;
  for (const auto& value : values) {
    if (value.byte(0) != kTensor) throw Unsupported("a test case holds a plain number; only tensors are verified.");
    const auto tensor = value.table(1);
    TensorFile file{path, scalar_type_of(tensor.byte(0)), {}, 0, 0, "", true};
    const auto sizes = tensor.vector(1, sizeof(std::int32_t));
    const auto order = tensor.vector(3);
    for (std::size_t at = 0; at < sizes.size(); at += sizeof(std::int32_t)) {
      std::int32_t extent;
      std::memcpy(&extent, sizes.data() + at, sizeof extent);
      file.shape.push_back(extent);
    }
    if (order.size() != file.shape.size()) throw std::out_of_range("its order is not that of its shape");
    for (std::size_t axis = 0; axis < order.size(); ++axis) {
      if (static_cast<std::uint8_t>(order[axis]) != axis) {
        throw Unsupported("a test case holds a tensor in another order; only row-major ones are read.");
      }
    }
    const auto data = tensor.vector(2);
    file.offset = tensor.offset_of(data);
    file.size_bytes = data.size();
    if (element_count(file.shape) * item_size(file.dtype) != data.size()) throw std::out_of_range("its shape");
    files.push_back(std::move(file));
  }
  return files;
}

// Throws std::exception where the parts do not fit together.
Bundle read_cases(const std::string& bytes, const fs::path& path) {
  const auto root = Flatbuffer::root(bytes);
  const auto program = root.vector(2);
  auto bundle = described_program(path, delegates_in(program));
  bundle.is_bundled = true;
  auto& artifact = bundle.artifacts.front();
  artifact.offset = root.offset_of(program);
  artifact.size_bytes = program.size();
  std::vector<TestCase> cases;
  for (const auto& suite : root.tables(1)) {
    if (suite.text(0) != kMethod) continue;
    for (const auto& row : suite.tables(1)) {
      cases.push_back({tensors_of(row.tables(0), path), tensors_of(row.tables(1), path), {}, {}, {}, {}, false, {}});
    }
  }
  const auto is_bare = [](const TestCase& one) { return one.expected.empty(); };
  if (cases.empty() || std::any_of(cases.begin(), cases.end(), is_bare)) {
    throw Unsupported(std::string("it has no expected outputs for its method ") + kMethod +
                      ", so nothing can be verified.");
  }
  bundle.sample = std::move(cases.front());
  bundle.further.assign(std::make_move_iterator(cases.begin() + 1), std::make_move_iterator(cases.end()));
  return bundle;
}

// Takes what our own manifest beside the file says, where it names the file.
void take_manifest(const fs::path& path, Bundle& bundle) {
  static const std::string complaint = "its manifest is damaged: ";
  auto manifest = path;
  manifest.replace_extension(".json");
  nlohmann::json document;
  try {
    document = parse_document(read_whole(manifest, kMaxDescriptionBytes), complaint);
  } catch (const BundleError&) {
    return;  // there is none, or it is another's
  }
  if (!document.is_object() || document.value("format", nlohmann::json()) != "cross-backend-artifact") return;
  const Node root(document, complaint);
  const auto named = root.find("bundled");
  if (!named || (*named)["path"].text() != path.filename().u8string()) return;
  auto& artifact = bundle.artifacts.front();
  if ((*named)["sha256"].sha256() != artifact.sha256) {
    throw BundleError("it is not the bundled program that " + manifest.filename().u8string() +
                      " describes: it was changed, truncated or swapped. Export it again.");
  }
  artifact.target = artifact.title = root["target"].name();
  artifact.runtime = runtime_name(artifact.target);
  artifact.export_s = root["export_s"].number();
  if (const auto coverage = root["placement"].find("coverage")) artifact.coverage = coverage->number();
  bundle.model = root["workload"].name();
}

// Returns the file itself, or the one beside it that stands for it.
fs::path found(const fs::path& path) {
  std::error_code error;
  if (!fs::exists(path, error)) throw BundleError("it does not exist.");
  if (kind_of_file(path) == FileKind::kBundledProgram) return path;
  std::string beside;
  if (path.extension() == ".pte" || path.extension() == ".json") {
    auto sibling = path;
    sibling.replace_extension(".bpte");
    if (fs::is_regular_file(sibling, error)) return sibling;
    beside = ", and there is no " + sibling.filename().u8string() + " beside it";
  }
  throw BundleError("it is not a bundled program" + beside +
                    "; write one with 'cross-backend export MODEL --bundled'.");
}

}  // namespace

Bundle read_bundled_program(const fs::path& path) {
  const auto file = found(path);
  const auto bytes = read_whole(file, kMaxProgramBytes);
  if (bytes.compare(4, 4, kBundledVersion) != 0) {
    throw BundleError(std::string("it is no bundled program of the format ") + kBundledVersion +
                      " that this version reads.");
  }
  Bundle bundle;
  try {
    bundle = read_cases(bytes, file);
  } catch (const Failure&) {
    throw;
  } catch (const std::exception&) {
    throw BundleError("it is damaged: the parts of this bundled program do not fit together.");
  }
  auto& artifact = bundle.artifacts.front();
  take_manifest(file, bundle);
  std::optional<double> rounding;
  for (const auto& one : bundle.sample.expected) rounding = std::max(rounding, rounding_of(one.dtype));
  const auto limits = limits_of(precision_of(artifact.target), rounding);
  artifact.tolerance = limits.tolerance;
  artifact.mean_tolerance = limits.mean;
  return bundle;
}

}  // namespace cross_backend
