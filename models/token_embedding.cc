#include "models/token_embedding.h"

#include "runtime/ops/dropout.h"
#include "runtime/ops/embedding.h"

namespace trireme {

TokenEmbedding::TokenEmbedding(const TokenEmbeddingConfig& config)
    : Block("embedding"), dropout_(config.dropout) {
  const Initializer init = Initializer::normal(config.init_stddev);
  tokens_ = declare({.name = "tokens", .shape = {config.vocab, config.hidden}, .init = init});
  if (config.positions == 0) return;
  positions_ = declare({.name = "positions", .shape = {config.positions, config.hidden}, .init = init});
}

Activations TokenEmbedding::forward(Context& ctx, const Activations&, const Batch& batch) const {
  return {ops::dropout(ctx, ops::embedding(ctx, batch.inputs, tokens_, positions_), dropout_)};
}

}  // namespace trireme
