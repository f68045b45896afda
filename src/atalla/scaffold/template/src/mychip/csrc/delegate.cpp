// MychipBackend: blobs inside an ExecuTorch program (.pte). It registers itself when this library is opened (build.py).
#include <executorch/runtime/backend/interface.h>
#include <executorch/runtime/platform/log.h>

#include "mychip.h"

namespace {

namespace et = executorch::runtime;
using et::Error;

// Whether a tensor is what the chip reads and writes: so many float32 in rows, one behind the other.
bool fits(const et::EValue* value, size_t floats) {
  if (!value || !value->isTensor()) return false;
  const auto& tensor = value->toTensor();
  if (tensor.scalar_type() != executorch::aten::ScalarType::Float) return false;
  if (static_cast<size_t>(tensor.numel()) != floats) return false;
  ssize_t stride = 1;
  for (auto i = tensor.dim(); i-- > 0;) {
    if (tensor.size(i) != 1 && tensor.strides()[i] != stride) return false;
    stride *= tensor.size(i);
  }
  return true;
}

class MychipBackend final : public et::BackendInterface {
 public:
  bool is_available() const override { return true; }  // CHIP: whether one is there

  et::Result<et::DelegateHandle*> init(et::BackendInitContext&, et::FreeableBuffer* processed,
                                       et::ArrayRef<et::CompileSpec>) const override {
    mychip_program* program = nullptr;
    const char* why = mychip_open(processed->data(), processed->size(), &program);
    if (why) {
      ET_LOG(Error, "MychipBackend: %s", why);
      return Error::InvalidProgram;
    }
    processed->Free();  // it was copied
    return program;
  }

  // The arguments are the inputs of the partition, then its outputs. Nothing is allocated here.
  Error execute(et::BackendExecutionContext&, et::DelegateHandle* handle, et::Span<et::EValue*> args) const override {
    auto* program = static_cast<mychip_program*>(handle);
    const auto inputs = mychip_describe(program)->inputs, outputs = mychip_describe(program)->outputs;
    if (args.size() != static_cast<size_t>(inputs) + outputs) {
      ET_LOG(Error, "MychipBackend: %zu arguments instead of %u inputs and %u outputs", args.size(), inputs, outputs);
      return Error::InvalidArgument;
    }
    for (uint32_t i = 0; i < args.size(); ++i) {
      const bool is_input = i < inputs;
      if (fits(args[i], is_input ? mychip_input_floats(program, i) : mychip_output_floats(program, i - inputs)))
        continue;
      ET_LOG(Error, "MychipBackend: argument %u is not what the program was compiled for", i);
      return Error::InvalidArgument;
    }
    for (uint32_t i = 0; i < inputs; ++i) mychip_write(program, i, args[i]->toTensor().const_data_ptr<float>());
    mychip_run(program);
    for (uint32_t i = 0; i < outputs; ++i)
      mychip_read(program, i, args[inputs + i]->toTensor().mutable_data_ptr<float>());
    return Error::Ok;
  }

  void destroy(et::DelegateHandle* handle) const override { mychip_close(static_cast<mychip_program*>(handle)); }
};

MychipBackend backend;
const auto registered = et::register_backend({"MychipBackend", &backend});

}  // namespace

// Not 0 where the runtime refused: another library has taken that name.
extern "C" int mychip_delegate_registered(void) { return static_cast<int>(registered); }
