#include "runtime/ops/gather_targets.h"

#include "runtime/base/error.h"
#include "runtime/tape.h"

namespace trireme::ops {
namespace {

struct GatherTargetsBackward {
  Tensor positions;
  Shape shape;  // of x
  ValueId x = kNoValue;

  std::string name() const { return "gather_targets"; }
  std::vector<Tensor> saved() const { return {positions}; }

  void backward(Context& ctx, Gradients& gradients, ValueId y) const {
    const Tensor dy = gradients.take(y);
    if (x == kNoValue) return;
    const Tensor dx = ctx.empty(shape, dy.dtype());
    ctx.run(ScatterTargetsArgs{.positions = positions, .dy = dy, .dx = dx});
    gradients.add(ctx, x, dx);
  }
};

}  // namespace

TargetRows gather_targets(Context& ctx, const Tensor& x, const Tensor& targets, const Tensor& positions) {
  const Shape& shape = x.shape();
  TRIREME_CHECK(
      shape.rank() == 3 && targets.shape() == Shape({shape[0], shape[1]}) &&
          targets.dtype() == DType::kInt32 && positions.shape().rank() == 2 &&
          positions.shape()[0] == shape[0] && positions.dtype() == DType::kInt32,
      "gather_targets: needs x [B, T, C], int32 targets [B, T] and int32 positions [B, K], got {}, {} "
      "{} and {} {}",
      shape.to_string(), name(targets.dtype()), targets.shape().to_string(), name(positions.dtype()),
      positions.shape().to_string());
  const std::int64_t rows = positions.num_elems();
  TargetRows out{.x = ctx.empty({rows, shape[2]}, x.dtype()), .targets = ctx.empty({rows}, DType::kInt32)};
  ctx.run(GatherTargetsArgs{
      .positions = positions, .x = x, .targets = targets, .y = out.x, .y_targets = out.targets});
  out.x = recorded(ctx, out.x, GatherTargetsBackward{.positions = positions, .shape = shape, .x = x.id()});
  return out;
}

}  // namespace trireme::ops
