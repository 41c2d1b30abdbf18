#include <cassert>

#include "kernels/cpu/launch.h"
#include "kernels/cpu/numerics.h"
#include "kernels/cpu/ops.h"
#include "runtime/base/error.h"

namespace trireme::cpu {
namespace {

void check_floating(ConstTensorView view) {
  if (view.dtype == DType::kFloat32 || view.dtype == DType::kFloat16 || view.dtype == DType::kBFloat16)
    return;
  throw Error(ErrorCode::kUnsupported,
              fmt::format("cast on cpu wants fp32, fp16 or bf16, got a tensor {} of {}",
                          view.shape.to_string(), name(view.dtype)));
}

const float* read(ConstTensorView x, std::int64_t first, std::int64_t count, float* buffer) {
  const CastNumerics& cast = *numerics().cast;
  if (x.dtype == DType::kFloat32) return x.as<float>() + first;
  (x.dtype == DType::kFloat16 ? cast.from_fp16 : cast.from_bf16)(x.as<std::uint16_t>() + first, buffer,
                                                                 count);
  return buffer;
}

void write(const float* values, TensorView y, std::int64_t first, std::int64_t count) {
  const CastNumerics& cast = *numerics().cast;
  if (y.dtype == DType::kFloat32) {
    std::copy_n(values, count, y.as<float>() + first);
  } else {
    (y.dtype == DType::kFloat16 ? cast.to_fp16 : cast.to_bf16)(values, y.as<std::uint16_t>() + first, count);
  }
}

}  // namespace

void cast(const KernelContext& exec, const CastArgs& args) {
  check_floating(args.x);
  check_floating(args.y);
  assert(args.x.num_elems() == args.y.num_elems());
  if (args.x.dtype == args.y.dtype) return copy(exec, args.y, args.x);
  constexpr std::int64_t kRange = 2048;
  for_each_range(exec, args.y.num_elems(), kRange, [&](std::int64_t first, std::int64_t count) {
    float buffer[kRange];
    write(read(args.x, first, count, buffer), args.y, first, count);
  });
}

}  // namespace trireme::cpu
