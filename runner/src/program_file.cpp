#include "program_file.h"

#include <algorithm>
#include <array>
#include <stdexcept>
#include <utility>

#include "digest.h"
#include "file.h"
#include "flatbuffer.h"
#include "outcome.h"

namespace cross_backend {
namespace {

namespace fs = std::filesystem;

constexpr auto kMethodName = "forward";

// Delegate id → our backend, to name a file's target by what is in it.
constexpr std::array<std::pair<const char*, const char*>, 8> kBackends{{
    {"AtallaBackend", "executorch.atalla"},
    {"CoreMLBackend", "executorch.coreml"},
    {"EthosUBackend", "executorch.ethos_u"},
    {"MPSBackend", "executorch.mps"},
    {"OpenvinoBackend", "executorch.openvino"},
    {"QnnBackend", "executorch.qnn"},
    {"VulkanBackend", "executorch.vulkan"},
    {"XnnpackBackend", "executorch.xnnpack"},
}};

// Names the backend that has most of a file's delegates; the portable kernels where it has none of ours.
std::string target_of(const std::vector<std::string>& ids) {
  std::string best = "executorch.portable";
  std::ptrdiff_t most = 0;
  for (const auto& id : ids) {
    const auto count = std::count(ids.begin(), ids.end(), id);
    const auto* known =
        std::find_if(kBackends.begin(), kBackends.end(), [&](const auto& row) { return id == row.first; });
    if (known == kBackends.end() || count <= most) continue;
    most = count;
    best = known->second;
  }
  return best;
}

}  // namespace

std::string read_whole(const fs::path& path, std::uint64_t most) {
  try {
    File file(path);
    if (file.size() > most) throw BundleError("it is larger than anything of its kind.");
    std::string bytes(static_cast<std::size_t>(file.size()), '\0');
    bytes.resize(file.read(bytes.data(), bytes.size()));
    return bytes;
  } catch (const BundleError&) {
    throw;
  } catch (const std::runtime_error& fault) {
    std::error_code error;
    throw BundleError(fs::exists(path, error) ? std::string(fault.what()) + "." : "it does not exist.");
  }
}

FileKind kind_of_file(const fs::path& path) {
  std::error_code error;
  if (!fs::is_regular_file(path, error)) return FileKind::kNone;
  try {
    std::array<char, 8> head{};
    File(path).read(head.data(), head.size());
    const auto is_digit = [](char letter) { return letter >= '0' && letter <= '9'; };
    if (!is_digit(head[6]) || !is_digit(head[7])) return FileKind::kNone;
    const std::string_view magic(head.data() + 4, 2);
    return magic == "BP" ? FileKind::kBundledProgram : magic == "ET" ? FileKind::kProgram : FileKind::kNone;
  } catch (const std::runtime_error&) {
    return FileKind::kNone;
  }
}

std::vector<std::string> delegates_in(std::string_view program) {
  std::vector<std::string> ids;
  for (const auto& plan : Flatbuffer::root(program).tables(1)) {
    if (plan.text(0) != kMethodName) continue;
    for (const auto& delegate : plan.tables(7)) ids.push_back(delegate.text(0));
  }
  return ids;
}

Bundle described_program(const fs::path& path, const std::vector<std::string>& ids) {
  Artifact artifact;
  artifact.name = path.stem().u8string();
  artifact.target = target_of(ids);
  artifact.runtime = runtime_name(artifact.target);
  artifact.title = artifact.target;
  artifact.payload = path;
  artifact.sha256 = digest_path(path);
  artifact.delegates = ids;
  std::sort(artifact.delegates.begin(), artifact.delegates.end());
  artifact.delegates.erase(std::unique(artifact.delegates.begin(), artifact.delegates.end()), artifact.delegates.end());
  Bundle bundle;
  bundle.folder = path.parent_path();
  bundle.model = artifact.name;
  bundle.artifacts.push_back(std::move(artifact));
  return bundle;
}

Bundle read_program(const fs::path& path) {
  const auto bytes = read_whole(path, kMaxProgramBytes);
  if (kind_of_file(path) != FileKind::kProgram) throw BundleError("it is no program of ExecuTorch.");
  try {
    auto bundle = described_program(path, delegates_in(bytes));
    auto& artifact = bundle.artifacts.front();
    artifact.size_bytes = bytes.size();
    return bundle;
  } catch (const std::exception&) {
    throw BundleError("it is damaged: the parts of this program do not fit together.");
  }
}

}  // namespace cross_backend
