// The bundle's manifest (docs/bundle.md, version 1): what this program needs of it, checked.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "tensor_file.h"

namespace cross_backend {

// Inputs and what they give.
struct TestCase {
  std::vector<TensorFile> inputs;
  std::vector<TensorFile> expected;
  std::vector<TensorFile> inputs2;  // a second input and its outputs; none in older bundles
  std::vector<TensorFile> expected2;
  std::vector<TensorFile> scale;     // by what an output's deviations are judged, in its shape; none in older bundles
  std::vector<TensorFile> rounding;  // one number: what float32's rounding changes; none in older bundles
  bool has_state = false;            // whether a call depends on those before it
  std::vector<TestCase> steps;       // then: the calls after this one, on the state that it left
};

struct Artifact {
  std::string name;
  std::string target;
  std::string runtime;  // see runtime_name
  std::string title;
  std::filesystem::path payload;
  std::uint64_t offset = 0;  // of the program in the file, which ends there or goes on
  std::uint64_t size_bytes = 0;
  std::string sha256;                    // of the whole file
  double tolerance = 0;                  // largest deviation of an element from what is expected
  std::optional<double> mean_tolerance;  // and of the root mean square of all, where it is limited
  std::vector<std::string> delegates;    // ids that the runtime must hold
  std::optional<double> coverage;
  std::optional<double> export_s;
};

struct Bundle {
  std::filesystem::path folder;
  std::string model;
  TestCase sample;
  bool is_bundled = false;          // one of ExecuTorch's bundled programs, and no folder
  std::vector<TestCase> further;    // of such a one, each verified alone
  std::vector<Artifact> artifacts;  // in fallback order
  std::map<std::string, std::vector<std::string>> orders;
};

// Returns what stands before a target's first '.' or '?': the runtime that it needs.
std::string runtime_name(const std::string& target);

// Reads and checks the manifest; payloads and samples are not opened.
// Throws BundleError: missing, damaged, of a newer version, or with a path that leaves the folder.
Bundle read_bundle(const std::filesystem::path& folder);

// Returns the artifacts of a platform's order (of the bundle's own where it is empty), only those named in `only` by
// name or target. Throws UsageError: the bundle knows no such platform or artifact.
std::vector<Artifact> choose(const Bundle& bundle, const std::string& platform, const std::vector<std::string>& only);

}  // namespace cross_backend
