#include "kernels/cpu/launch.h"

#include <omp.h>

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

// Whole cache lines, so that threads share none.
ThreadScratch::ThreadScratch(const KernelContext& exec, std::int64_t num_floats, int num_parts)
    : pitch_(ceil_div(num_floats, 16) * 16) {
  if (num_floats > 0) all_.emplace(exec, pitch_ * num_parts);
}

float* ThreadScratch::mine() const {
  return of(omp_get_thread_num());
}

}  // namespace trireme::cpu
