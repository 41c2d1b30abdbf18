#include "runtime/ops/embedding.h"

#include "runtime/base/error.h"
#include "runtime/deferred_gradients.h"
#include "runtime/key_value_cache.h"
#include "runtime/ops/cast.h"
#include "runtime/tape.h"

namespace trireme::ops {
namespace {

struct EmbeddingParameterGradients {
  Tensor dx, tokens;
  ParamRef table, positions;

  void run(Context& ctx) const {
    const GradientTarget dtable = ctx.parameters->gradient(table);
    const GradientTarget dpositions =
        positions.defined() ? ctx.parameters->gradient(positions) : GradientTarget{};
    ctx.run(EmbeddingBwdArgs{.dx = dx,
                             .tokens = tokens,
                             .dtable = dtable.view(),
                             .dpositions = dpositions.view(),
                             .dtable_mode = dtable.mode,
                             .dpositions_mode = dpositions.mode});
  }
};

struct EmbeddingBackward {
  Tensor tokens;
  ParamRef table, positions;

  std::string name() const { return "embedding"; }
  std::vector<Tensor> saved() const { return {tokens}; }

  void backward(Context& ctx, Gradients& gradients, ValueId y) {
    run_or_defer(ctx, EmbeddingParameterGradients{gradients.take(y), tokens, table, positions});
  }
};

}  // namespace

Tensor embedding(Context& ctx, const Tensor& tokens, ParamRef table, ParamRef positions) {
  const DType dtype = ctx.precision.dtype_of(OpKind::kEmbedding, ctx.precision.compute_dtype());
  const Tensor rows = parameter(ctx, table, dtype);
  TRIREME_CHECK(tokens.shape().rank() == 2 && tokens.dtype() == DType::kInt32 && rows.shape().rank() == 2,
                "embedding: needs int32 tokens [B, T] and a table [V, C], got {} {} and {}",
                name(tokens.dtype()), tokens.shape().to_string(), rows.shape().to_string());
  const std::int64_t width = rows.shape().dim(1);
  EmbeddingFwdArgs args{.tokens = tokens, .table = rows};
  Tensor places;
  if (positions.defined()) {
    places = parameter(ctx, positions, dtype);
    const std::int64_t first = ctx.cache != nullptr ? ctx.cache->length() : 0;
    const std::int64_t end = first + tokens.shape().dim(1);
    TRIREME_CHECK(
        places.shape().rank() == 2 && places.shape().dim(1) == width && places.shape().dim(0) >= end,
        "embedding: {} tokens of width {} do not fit position table {}", end, width,
        places.shape().to_string());
    args.positions = places = places.slice(first * width, {end - first, width});
  }
  const Tensor x = ctx.empty({tokens.shape().dim(0), tokens.shape().dim(1), width}, dtype);
  args.x = x;
  ctx.run(args);
  return recorded(ctx, x, EmbeddingBackward{.tokens = tokens, .table = table, .positions = positions});
}

}  // namespace trireme::ops
