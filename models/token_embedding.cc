#include "models/token_embedding.h"

#include "models/key_bounds.h"
#include "runtime/base/error.h"
#include "runtime/ops/add.h"
#include "runtime/ops/dropout.h"
#include "runtime/ops/embedding.h"
#include "runtime/ops/scale.h"
#include "runtime/ops/sequence_shard.h"

namespace trireme {

TokenEmbedding::TokenEmbedding(const TokenEmbeddingConfig& config)
    : Block(config.name), scale_(config.scale), dropout_(config.dropout) {
  for (int i = 0; i < config.chunks; ++i) {
    tokens_.push_back(
        declare(slice_of({.name = config.table, .shape = {config.vocab, config.hidden}, .init = config.init},
                         slice_of_chunk(i, config.chunks, CutDim::kRows))));
  }
  using enum TensorCall;
  if (config.chunks > 1) declare_tensor_calls({.forward = {kSum}, .backward = {}});
  if (config.chunks > 1) {
    declare_sequence_calls({.forward = {kScatterSum}, .backward = {kGatherRows}});
  } else if (config.layer_chunks > 1) {
    declare_sequence_calls({.forward = {}, .backward = {kGatherRows}});
  }
  if (config.positions == 0) return;
  positions_ =
      declare({.name = "positions", .shape = {config.positions, config.hidden}, .init = config.init});
}

Activations TokenEmbedding::forward(Context& ctx, const Activations&, const Batch& batch) const {
  if (batch.key_bounds.defined() && positions_.defined()) return embed_documents(ctx, batch);
  Tensor x = tokens_.size() == 1
                 ? ops::to_shard(ctx, ops::embedding(ctx, batch.inputs, tokens_.front(), positions_))
                 : ops::embedding_in_chunks(ctx, batch.inputs, tokens_, positions_);
  if (scale_ != 1.0f) x = ops::scale(ctx, x, scale_);
  return with_bounds(ops::stream_dropout(ctx, x, dropout_), batch.key_bounds);
}

Activations TokenEmbedding::embed_documents(Context& ctx, const Batch& batch) const {
  TRIREME_CHECK(
      tokens_.size() == 1,
      "{}: a table in {} chunks cannot add the learned positions of packed documents: use one chunk", name(),
      tokens_.size());
  Tensor x = ops::embedding(ctx, batch.inputs, tokens_.front());
  x = ops::add(ctx, x, ops::embedding(ctx, batch.positions, positions_));
  return with_bounds(ops::stream_dropout(ctx, ops::to_shard(ctx, x), dropout_), batch.key_bounds);
}

}  // namespace trireme
