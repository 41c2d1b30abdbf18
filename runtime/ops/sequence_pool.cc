#include "runtime/ops/sequence_pool.h"

#include "runtime/base/error.h"
#include "runtime/ops/cast.h"
#include "runtime/tape.h"

namespace trireme::ops {
namespace {

struct SequencePoolBackward {
  Tensor x, weights;
  Shape scores_shape;
  ValueId scores = kNoValue;

  std::string name() const { return "sequence_pool"; }
  std::vector<Tensor> saved() const { return {x, weights}; }

  void backward(Context& ctx, Gradients& gradients, ValueId y) {
    const Tensor dy = gradients.take(y);
    const Tensor dx = ctx.empty(x.shape(), x.dtype()), dscores = ctx.empty(scores_shape, x.dtype());
    ctx.run(SequencePoolBwdArgs{.dy = dy, .x = x, .weights = weights, .dx = dx, .dscores = dscores});
    gradients.add(ctx, scores, dscores);
    gradients.add(ctx, x.id(), dx);
  }
};

}  // namespace

Tensor sequence_pool(Context& ctx, const Tensor& input, const Tensor& input_scores) {
  TRIREME_CHECK(input.shape().rank() == 3, "sequence_pool: needs tokens [B, N, C], got {}",
                input.shape().to_string());
  const std::int64_t samples = input.shape().dim(0), tokens = input.shape().dim(1);
  TRIREME_CHECK(
      input_scores.shape() == Shape({samples, tokens}) || input_scores.shape() == Shape({samples, tokens, 1}),
      "sequence_pool: scores {} do not fit tokens {}", input_scores.shape().to_string(),
      input.shape().to_string());
  const Tensor x = cast(ctx, input, ctx.precision.dtype_of(OpKind::kPool, input.dtype()));
  const Tensor scores = cast(ctx, input_scores, x.dtype());
  const Tensor weights = ctx.empty({samples, tokens});
  const Tensor y = ctx.empty({samples, x.shape().dim(2)}, x.dtype());
  ctx.run(SequencePoolFwdArgs{.x = x, .scores = scores, .weights = weights, .y = y});
  return recorded(ctx, y,
                  SequencePoolBackward{
                      .x = x, .weights = weights, .scores_shape = scores.shape(), .scores = scores.id()});
}

}  // namespace trireme::ops
