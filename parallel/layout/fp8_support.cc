#include "parallel/layout/fp8_support.h"

#include "runtime/base/error.h"

namespace trireme {

void check_fp8(const Context& ctx, const ModelLayout& layout) {
  if (!ctx.precision.has_fp8_products()) return;
  for (const ParamGroup& group : layout.groups) {
    if (group.chunk < 0) continue;
    throw Error(
        ErrorCode::kUnsupported,
        "Precision::mode = fp8 does not go with the tensor chunks of '{}' yet; take bf16, or one chunk",
        group.name);
  }
  constexpr std::int64_t kExtent = 128;  // minimum size of every library's fp8 kernels
  const Shape some{kExtent, kExtent};
  const Tensor numbers = ctx.zeros(some), product = ctx.empty(some, DType::kBFloat16);
  const Tensor codes = ctx.empty(some, DType::kE4m3), inverse_scale = ctx.empty({});
  try {
    ctx.run(QuantizeArgs{.x = numbers, .out = {.codes = codes, .inverse_scale = inverse_scale}});
    ctx.run(MatmulArgs{.a = codes,
                       .b = codes,
                       .d = product,
                       .transpose_b = Transpose::kYes,
                       .a_inverse_scale = inverse_scale,
                       .b_inverse_scale = inverse_scale});
  } catch (const Error& e) {
    throw Error(e.code(), fmt::format("Precision::mode = fp8 is not possible here; take bf16: {}", e.what()),
                e.where());
  }
}

}  // namespace trireme
