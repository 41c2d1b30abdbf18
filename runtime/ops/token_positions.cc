#include "runtime/ops/token_positions.h"

#include "runtime/base/error.h"
#include "runtime/deferred_gradients.h"
#include "runtime/ops/cast.h"
#include "runtime/tape.h"

namespace trireme::ops {
namespace {

struct TokenPositionsParameterGradients {
  Tensor dy;
  ParamRef first, positions;

  void run(Context& ctx) const {
    const GradientTarget dfirst = first.defined() ? ctx.parameters->gradient(first) : GradientTarget{};
    const GradientTarget dpositions = ctx.parameters->gradient(positions);
    ctx.run(TokenPositionsBwdArgs{.dy = dy,
                                  .dfirst = dfirst.view(),
                                  .dpositions = dpositions.view(),
                                  .dfirst_mode = dfirst.mode,
                                  .dpositions_mode = dpositions.mode});
  }
};

struct TokenPositionsBackward {
  Shape shape;  // of x
  ValueId x = kNoValue;
  ParamRef first, positions;

  std::string name() const { return "token_positions"; }
  std::vector<Tensor> saved() const { return {}; }

  void backward(Context& ctx, Gradients& gradients, ValueId y) {
    Tensor dy = gradients.take(y);
    run_or_defer(ctx, TokenPositionsParameterGradients{dy, first, positions});
    if (x == kNoValue) return;
    if (!first.defined()) return gradients.add(ctx, x, std::move(dy));
    const Tensor dx = ctx.empty(shape, dy.dtype());
    ctx.run(TokenPositionsBwdArgs{.dy = dy, .dx = dx, .dpositions_mode = GradientMode::kIgnore});
    gradients.add(ctx, x, dx);
  }
};

}  // namespace

Tensor token_positions(Context& ctx, const Tensor& input, const TokenPositionsOptions& options) {
  TRIREME_CHECK(input.shape().rank() == 3, "token_positions: needs tokens [B, N, C], got {}",
                input.shape().to_string());
  const DType dtype = ctx.precision.dtype_of(OpKind::kEmbedding, ctx.precision.compute_dtype());
  const Tensor x = cast(ctx, input, dtype);
  const Tensor first = options.first.defined() ? parameter(ctx, options.first, dtype) : Tensor();
  const Tensor positions = parameter(ctx, options.positions, dtype);
  const std::int64_t width = x.shape().dim(2), tokens = x.shape().dim(1) + (first.defined() ? 1 : 0);
  TRIREME_CHECK(!first.defined() || first.num_elems() == width,
                "token_positions: a first token {} does not fit tokens {}", first.shape().to_string(),
                x.shape().to_string());
  TRIREME_CHECK(positions.shape().rank() >= 2 && positions.shape().dim(-1) == width &&
                    positions.num_elems() == tokens * width,
                "token_positions: {} tokens of width {} do not fit position table {}", tokens, width,
                positions.shape().to_string());
  const Tensor y = ctx.empty({x.shape().dim(0), tokens, width}, dtype);
  ctx.run(TokenPositionsFwdArgs{.x = x,
                                .first = first.defined() ? first.reshape({width}) : Tensor(),
                                .positions = positions.reshape({tokens, width}),
                                .y = y});
  return recorded(
      ctx, y,
      TokenPositionsBackward{
          .shape = x.shape(), .x = x.id(), .first = options.first, .positions = options.positions});
}

}  // namespace trireme::ops
