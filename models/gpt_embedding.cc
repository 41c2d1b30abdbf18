#include "models/gpt_embedding.h"

#include "runtime/ops/dropout.h"
#include "runtime/ops/embedding.h"

namespace trireme {

GptEmbedding::GptEmbedding(const GptConfig& config, float init_stddev)
    : Block("embedding"), dropout_(config.dropout) {
  const Initializer init = Initializer::normal(init_stddev);
  tokens_ = declare({.name = "tokens", .shape = {config.vocab, config.hidden}, .init = init});
  positions_ = declare({.name = "positions", .shape = {config.seq_len, config.hidden}, .init = init});
}

Activations GptEmbedding::forward(Context& ctx, const Activations&, const Batch& batch) const {
  return {ops::dropout(ctx, ops::embedding(ctx, batch.inputs, tokens_, positions_), dropout_)};
}

}  // namespace trireme
