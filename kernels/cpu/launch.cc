#include "kernels/cpu/launch.h"

#include <omp.h>

#include <algorithm>

#include "runtime/base/error.h"

namespace trireme::cpu {

void check_fp32(const char* op, std::initializer_list<ConstTensorView> views) {
  for (const ConstTensorView& view : views) {
    if (view.defined() && view.dtype != DType::kFloat32) {
      throw Error(ErrorCode::kUnsupported, "{} on cpu wants fp32, got a tensor {} of {}", op,
                  view.shape.to_string(), name(view.dtype));
    }
  }
}

void check_indices(const IndexCheck& check, ConstTensorView indices) {
  const std::int32_t* values = indices.as<std::int32_t>();
  const std::int64_t num = indices.num_elems();
  const auto is_wrong = [&check](std::int32_t value) { return value < check.lowest || value >= check.count; };
  // A loop without an exit vectorises. It is cheap compared with the read of a table row.
  bool any = false;
  for (std::int64_t i = 0; i < num; ++i) any |= is_wrong(values[i]);
  if (!any) return;
  const std::int64_t first = std::find_if(values, values + num, is_wrong) - values;
  throw Error(ErrorCode::kInvalidInput, "{} on cpu: {} {} at index {} of {} is not in [{}, {})", check.op,
              check.what, values[first], first, indices.shape.to_string(), check.lowest, check.count);
}

// Rounds up to whole cache lines, so that threads share none.
ThreadScratch::ThreadScratch(const KernelContext& exec, std::int64_t num_floats, int num_parts)
    : pitch_(ceil_div(num_floats, 16) * 16) {
  if (num_floats > 0) all_.emplace(exec, pitch_ * num_parts);
}

float* ThreadScratch::mine() const {
  return of(omp_get_thread_num());
}

}  // namespace trireme::cpu
