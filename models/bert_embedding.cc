#include "models/bert_embedding.h"

#include "models/key_bounds.h"
#include "runtime/ops/add.h"
#include "runtime/ops/dropout.h"
#include "runtime/ops/embedding.h"
#include "runtime/ops/layer_norm.h"
#include "runtime/ops/sequence_shard.h"

namespace trireme {

BertEmbedding::BertEmbedding(const BertEmbeddingConfig& config)
    : Block("embedding"),
      dropout_(config.dropout),
      norm_epsilon_(config.norm_epsilon),
      layer_chunks_(config.layer_chunks) {
  using enum TensorCall;
  if (config.layer_chunks > 1) declare_sequence_calls({.forward = {}, .backward = {kSum, kGatherRows}});
  constexpr std::int64_t kTypes = 2;
  const Initializer init = Initializer::normal(kBertInitStddev);
  tokens_ = declare({.name = "tokens", .shape = {config.vocab, config.hidden}, .init = init});
  positions_ = declare({.name = "positions", .shape = {config.positions, config.hidden}, .init = init});
  types_ = declare({.name = "types", .shape = {kTypes, config.hidden}, .init = init});
  norm_weight_ = declare({.name = "norm.weight",
                          .shape = {config.hidden},
                          .init = Initializer::ones(),
                          .decay = false,
                          .center = 1.0f});
  norm_bias_ =
      declare({.name = "norm.bias", .shape = {config.hidden}, .init = Initializer::zeros(), .decay = false});
}

Activations BertEmbedding::forward(Context& ctx, const Activations&, const Batch& batch) const {
  const bool has_documents = batch.key_bounds.defined();
  const Tensor types = has_documents ? batch.types : ctx.zeros(batch.inputs.shape(), DType::kInt32);
  Tensor x;
  if (has_documents) {
    x = ops::embedding(ctx, batch.inputs, tokens_);
    x = ops::add(ctx, x, ops::embedding(ctx, batch.positions, positions_));
  } else {
    x = ops::embedding(ctx, batch.inputs, tokens_, positions_);
  }
  x = ops::to_shard(ctx, ops::add(ctx, x, ops::embedding(ctx, types, types_)));
  x = ops::layer_norm(ctx, x, norm_weight_, norm_bias_,
                      {.epsilon = norm_epsilon_, .row_groups = layer_chunks_});
  x = ops::stream_dropout(ctx, x, dropout_);
  return with_bounds(x, batch.key_bounds);
}

}  // namespace trireme
