#include "executorch_tracer.h"

#include <executorch/runtime/platform/clock.h>
#include <executorch/runtime/platform/platform.h>

#include <algorithm>
#include <map>

namespace cross_backend {
namespace {

namespace et = executorch::runtime;

// What the runtime calls its events (runtime/executor/method.cpp, codegen's kernel wrappers).
const std::string kRun = "Method::execute", kKernel = "OPERATOR_CALL", kDelegate = "DELEGATE_CALL";
const std::string kNative = "native_call_";

// Delegates number operators of one kind: "Convolution (NHWC, F32) IGEMM #41".
std::string kind_of(std::string name) {
  if (name.rfind(kNative, 0) == 0) name.erase(0, kNative.size());
  const auto end = name.find_last_not_of("0123456789");
  if (end != std::string::npos && end + 1 < name.size() && end > 0 && name[end] == '#' && name[end - 1] == ' ') {
    name.erase(end - 1);
  }
  return name;
}

std::string text_of(const char* name, std::int64_t id) { return name ? name : std::to_string(id); }

double ms_between(et_timestamp_t start, et_timestamp_t end) {
  return end > start ? static_cast<double>(et::ticks_to_ns(end - start)) / 1e6 : 0;
}

}  // namespace

void ExecuTorchTracer::clear() { events_.clear(); }

std::vector<Timing> ExecuTorchTracer::timings(const std::string& delegate) const {
  std::map<Handle, double> told;  // instruction → milliseconds, of those with a name
  std::vector<Timing> rows;
  for (const auto& event : events_) {
    if (event.name == kRun || event.name == kKernel || event.name == kDelegate) continue;
    told[event.instruction] += event.ms;
    rows.push_back({kind_of(event.name), event.is_delegated ? "delegated" : "operator", 1, event.ms});
  }
  for (const auto& event : events_) {
    const auto known = told.find(event.instruction);
    if (event.name == kDelegate) {
      const double rest = event.ms - (known == told.end() ? 0 : known->second);
      rows.push_back({delegate.empty() ? kDelegate : delegate, "delegate", 1, std::max(rest, 0.0)});
    } else if (event.name == kKernel && known == told.end()) {  // a kernel that does not tell its name
      rows.push_back({kKernel, "operator", 1, event.ms});
    }
  }
  return rows;
}

void ExecuTorchTracer::create_event_block(const char*) {}

ExecuTorchTracer::Entry ExecuTorchTracer::start_profiling(const char* name, Chain, Handle) {
  return start(name ? name : "", false);
}

ExecuTorchTracer::Entry ExecuTorchTracer::start_profiling_delegate(const char* name, Id id) {
  return start(text_of(name, id).c_str(), true);
}

void ExecuTorchTracer::end_profiling(Entry entry) { end(entry); }

void ExecuTorchTracer::end_profiling_delegate(Entry entry, const void*, std::size_t) { end(entry); }

void ExecuTorchTracer::log_profiling_delegate(const char* name, Id id, et_timestamp_t start, et_timestamp_t end,
                                              const void*, std::size_t) {
  events_.push_back({text_of(name, id), true, debug_handle_, ms_between(start, end)});
}

ExecuTorchTracer::Result<bool> ExecuTorchTracer::log_evalue(const et::EValue&, et::LoggedEValueType) { return false; }

ExecuTorchTracer::Entry ExecuTorchTracer::start(const char* name, bool is_delegated) {
  Entry entry{};
  entry.event_id = static_cast<std::int64_t>(events_.size());
  events_.push_back({name, is_delegated, debug_handle_, 0});
  entry.start_time = et::pal_current_ticks();  // last, so that this is no part of it
  return entry;
}

void ExecuTorchTracer::end(const Entry& entry) {
  const auto now = et::pal_current_ticks();
  const auto place = static_cast<std::size_t>(entry.event_id);
  if (place < events_.size()) events_[place].ms = ms_between(entry.start_time, now);
}

}  // namespace cross_backend
