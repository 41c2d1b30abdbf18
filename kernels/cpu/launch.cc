#include "kernels/cpu/launch.h"

#include "runtime/base/error.h"

namespace trireme::cpu {

void check_fp32(const char* op, std::initializer_list<ConstTensorView> views) {
  for (const ConstTensorView& view : views) {
    if (view.defined() && view.dtype != DType::kFloat32) {
      throw Error(ErrorCode::kUnsupported, fmt::format("{} on cpu wants fp32, got a tensor {} of {}", op,
                                                       view.shape.to_string(), name(view.dtype)));
    }
  }
}

void check_exact_fp32(const char* op, MathMode math) {
  if (math == MathMode::kTf32) {
    throw Error(ErrorCode::kUnsupported,
                fmt::format("{} on cpu reads fp32 inputs as they are, not as tf32", op));
  }
}

}  // namespace trireme::cpu
