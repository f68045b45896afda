// What ExecuTorch's runtime and its delegates tell a profiler, kept for one run.
#pragma once

#include <executorch/runtime/core/event_tracer.h>

#include <string>
#include <vector>

#include "timing.h"

namespace cross_backend {

class ExecuTorchTracer final : public executorch::runtime::EventTracer {
 public:
  // Forgets the last run.
  void clear();

  // Returns a row for each operator of the last run, and for each call of a delegate what it told, and the rest.
  // `delegate` is what a call is named by.
  std::vector<Timing> timings(const std::string& delegate) const;

  using Chain = executorch::runtime::ChainID;
  using Handle = executorch::runtime::DebugHandle;
  using Entry = executorch::runtime::EventTracerEntry;
  using Id = executorch::runtime::DelegateDebugIntId;
  template <typename Value>
  using Result = executorch::runtime::Result<Value>;
  using Tensor = executorch::aten::Tensor;

  void create_event_block(const char* name) override;
  Entry start_profiling(const char* name, Chain chain, Handle handle) override;
  void end_profiling(Entry entry) override;
  Entry start_profiling_delegate(const char* name, Id id) override;
  void end_profiling_delegate(Entry entry, const void* metadata, std::size_t size) override;
  void log_profiling_delegate(const char* name, Id id, et_timestamp_t start, et_timestamp_t end, const void* metadata,
                              std::size_t size) override;

  // Values and memory are not looked at.
  void track_allocation(executorch::runtime::AllocatorID, std::size_t) override {}
  executorch::runtime::AllocatorID track_allocator(const char*) override { return 0; }
  Result<bool> log_evalue(const executorch::runtime::EValue&, executorch::runtime::LoggedEValueType) override;
  Result<bool> log_intermediate_output_delegate(const char*, Id, const Tensor&) override { return false; }
  Result<bool> log_intermediate_output_delegate(const char*, Id, executorch::runtime::ArrayRef<Tensor>) override {
    return false;
  }
  Result<bool> log_intermediate_output_delegate(const char*, Id, const int&) override { return false; }
  Result<bool> log_intermediate_output_delegate(const char*, Id, const bool&) override { return false; }
  Result<bool> log_intermediate_output_delegate(const char*, Id, const double&) override { return false; }
  void set_delegation_intermediate_output_filter(executorch::runtime::EventTracerFilterBase*) override {}

 private:
  struct Event {
    std::string name;
    bool is_delegated;
    Handle instruction;
    double ms;
  };

  Entry start(const char* name, bool is_delegated);
  void end(const Entry& entry);

  std::vector<Event> events_;
};

}  // namespace cross_backend
