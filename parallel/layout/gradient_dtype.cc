#include "parallel/layout/gradient_dtype.h"

#include "runtime/base/error.h"

namespace trireme {

void check_gradient_dtype(const Context& ctx, const Optimizer& optimizer) {
  const DType dtype = ctx.precision.grad_dtype;
  if (dtype == DType::kFloat32) return;
  const Shape some{kNormBlock};
  const Tensor numbers = ctx.zeros(some);
  const Tensor gradient = ctx.empty(some, dtype);
  try {
    ctx.run(CastArgs{.x = numbers, .y = gradient});
    ctx.run(AddArgs{.a = gradient, .b = gradient, .out = gradient});
    ctx.run(SquaredNormBlocksArgs{.x = gradient, .partials = ctx.empty({1})});
    UpdateSegment segment{.param = numbers, .grad = gradient};
    std::vector<Tensor> state;
    for (std::size_t s = 0; s < optimizer.state_names().size(); ++s) state.push_back(ctx.zeros(some));
    for (const Tensor& tensor : state) segment.state.push_back(tensor);
    const std::int32_t first = 1;
    optimizer.update(
        ctx, segment,
        {.lr = ctx.zeros({}), .clip = ctx.zeros({}), .step = ctx.from_host(&first, {}, DType::kInt32)});
  } catch (const Error& e) {
    throw Error(e.code(),
                fmt::format("Precision::grad_dtype: gradients cannot be kept in {} here; use \"fp32\": {}",
                            name(dtype), e.what()),
                e.where());
  }
}

}  // namespace trireme
