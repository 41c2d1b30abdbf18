#include "runtime/ops/embedding.h"

#include <utility>
#include <vector>

#include "runtime/base/error.h"
#include "runtime/deferred_gradients.h"
#include "runtime/key_value_cache.h"
#include "runtime/ops/cast.h"
#include "runtime/ops/chunks.h"
#include "runtime/ops/sequence_shard.h"
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

struct ChunkGradients {
  Tensor dx, tokens;
  std::vector<ParamRef> tables;  // of this rank's chunks
  int first_chunk = 0;
  std::int64_t ids_per_chunk = 0;
  ParamRef positions;

  void run(Context& ctx) const {
    for (std::size_t i = 0; i < tables.size(); ++i) {
      const GradientTarget dtable = ctx.parameters->gradient(tables[i]);
      const bool first = i == 0 && positions.defined();
      const GradientTarget dpositions = first ? ctx.parameters->gradient(positions) : GradientTarget{};
      if (!dtable.view().defined() && !dpositions.view().defined()) continue;  // frozen
      const auto chunk = first_chunk + static_cast<std::int64_t>(i);
      ctx.run(EmbeddingBwdArgs{.dx = dx,
                               .tokens = tokens,
                               .dtable = dtable.view(),
                               .dpositions = dpositions.view(),
                               .dtable_mode = dtable.mode,
                               .dpositions_mode = dpositions.mode,
                               .first_id = chunk * ids_per_chunk});
    }
  }
};

struct ChunksBackward {
  Tensor tokens;
  std::vector<ParamRef> tables;
  int first_chunk = 0;
  std::int64_t ids_per_chunk = 0;
  ParamRef positions;

  std::string name() const { return "embedding_in_chunks"; }
  std::vector<Tensor> saved() const { return {tokens}; }

  void backward(Context& ctx, Gradients& gradients, ValueId y) {
    run_or_defer(ctx, ChunkGradients{all_rows(ctx, gradients.take(y)), tokens, tables, first_chunk,
                                     ids_per_chunk, positions});
  }
};

void check_tokens(const Tensor& tokens, const Tensor& rows) {
  TRIREME_CHECK(tokens.shape().rank() == 2 && tokens.dtype() == DType::kInt32 && rows.shape().rank() == 2,
                "embedding: needs int32 tokens [B, T] and a table [V, C], got {} {} and {}",
                name(tokens.dtype()), tokens.shape().to_string(), rows.shape().to_string());
}

// The rows of the position table for the tokens of a sequence.
Tensor places_of(Context& ctx, const Tensor& tokens, ParamRef positions, std::int64_t width, DType dtype) {
  const Tensor places = parameter(ctx, positions, dtype);
  const std::int64_t first = ctx.cache != nullptr ? ctx.cache->length() : 0;
  const std::int64_t end = first + tokens.shape().dim(1);
  TRIREME_CHECK(places.shape().rank() == 2 && places.shape().dim(1) == width && places.shape().dim(0) >= end,
                "embedding: {} tokens of width {} do not fit position table {}", end, width,
                places.shape().to_string());
  return places.slice(first * width, {end - first, width});
}

// Sums x over the tensor ranks; with sequence parallelism, returns this rank's shard of the sum. For each
// token at most one rank adds a table row, and the first rank adds the position. All other terms are 0.
Tensor summed_rows(Context& ctx, const Tensor& x) {
  if (ctx.tensor == nullptr) return x;
  if (x.dtype() == DType::kFloat32) return summed_over_ranks(ctx, x);
  const Tensor wide = ctx.empty(x.shape());
  ctx.run(CastArgs{.x = x, .y = wide});
  const Tensor sum = summed_over_ranks(ctx, wide);
  const Tensor y = sum.shape() == x.shape() ? x : ctx.empty(sum.shape(), x.dtype());
  ctx.run(CastArgs{.x = sum, .y = y});
  return y;
}

}  // namespace

Tensor embedding(Context& ctx, const Tensor& tokens, ParamRef table, ParamRef positions) {
  const DType dtype = ctx.precision.dtype_of(OpKind::kEmbedding, ctx.precision.compute_dtype());
  const Tensor rows = parameter(ctx, table, dtype);
  check_tokens(tokens, rows);
  const std::int64_t width = rows.shape().dim(1);
  EmbeddingFwdArgs args{.tokens = tokens, .table = rows};
  Tensor places;
  if (positions.defined()) args.positions = places = places_of(ctx, tokens, positions, width, dtype);
  const Tensor x = ctx.empty({tokens.shape().dim(0), tokens.shape().dim(1), width}, dtype);
  args.x = x;
  ctx.run(args);
  return recorded(ctx, x, EmbeddingBackward{.tokens = tokens, .table = table, .positions = positions});
}

Tensor embedding_in_chunks(Context& ctx, const Tensor& tokens, std::span<const ParamRef> tables,
                           ParamRef positions) {
  const DType dtype = ctx.precision.dtype_of(OpKind::kEmbedding, ctx.precision.compute_dtype());
  const ChunkRange own = own_chunks(ctx, static_cast<int>(tables.size()));
  Tensor x;
  std::int64_t ids_per_chunk = 0;
  std::vector<ParamRef> mine;
  for (int chunk = own.first; chunk < own.first + own.count; ++chunk) {
    mine.push_back(tables[static_cast<std::size_t>(chunk)]);
    const Tensor rows = parameter(ctx, mine.back(), dtype);
    check_tokens(tokens, rows);
    const std::int64_t width = rows.shape().dim(1);
    ids_per_chunk = rows.shape().dim(0);
    if (!x.defined()) x = ctx.zeros({tokens.shape().dim(0), tokens.shape().dim(1), width}, dtype);
    EmbeddingFwdArgs args{.tokens = tokens,
                          .table = rows,
                          .x = x,
                          .first_id = chunk * ids_per_chunk,
                          .num_ids = static_cast<std::int64_t>(tables.size()) * ids_per_chunk};
    Tensor places;
    if (chunk == 0 && positions.defined()) {
      args.positions = places = places_of(ctx, tokens, positions, width, dtype);
    }
    ctx.run(args);
  }
  x = summed_rows(ctx, x);
  return recorded(ctx, x,
                  ChunksBackward{.tokens = tokens,
                                 .tables = std::move(mine),
                                 .first_chunk = own.first,
                                 .ids_per_chunk = ids_per_chunk,
                                 .positions = positions});
}

}  // namespace trireme::ops
