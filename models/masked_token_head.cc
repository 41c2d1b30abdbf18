#include "models/masked_token_head.h"

#include <utility>

#include "models/bert_embedding.h"
#include "models/sequence_calls.h"
#include "runtime/ops/gather_targets.h"
#include "runtime/ops/layer_norm.h"
#include "runtime/ops/linear.h"
#include "runtime/ops/linear_cross_entropy.h"
#include "runtime/ops/sequence_shard.h"

namespace trireme {

MaskedTokenHead::MaskedTokenHead(std::int64_t vocab, std::int64_t hidden, float norm_epsilon,
                                 int layer_chunks)
    : Block("head"), norm_epsilon_(norm_epsilon) {
  if (layer_chunks > 1) declare_sequence_calls(whole_head_sequence_calls());
  const Initializer init = Initializer::normal(kBertInitStddev);
  const auto zeros = [&](const char* key, std::int64_t n) {
    return declare({.name = key, .shape = {n}, .init = Initializer::zeros(), .decay = false});
  };
  transform_weight_ = declare({.name = "transform.weight", .shape = {hidden, hidden}, .init = init});
  transform_bias_ = zeros("transform.bias", hidden);
  norm_weight_ = declare({.name = "norm.weight",
                          .shape = {hidden},
                          .init = Initializer::ones(),
                          .decay = false,
                          .center = 1.0f});
  norm_bias_ = zeros("norm.bias", hidden);
  weight_ =
      declare({.name = "weight", .shape = {vocab, hidden}, .init = init, .tied_to = "embedding.tokens"});
  bias_ = zeros("bias", vocab);
}

Activations MaskedTokenHead::forward(Context& ctx, const Activations& input, const Batch& batch) const {
  Tensor x = ops::to_whole(ctx, input.at(0)), targets = batch.targets;
  if (targets.defined() && batch.target_positions.defined()) {
    ops::TargetRows rows = ops::gather_targets(ctx, x, targets, batch.target_positions);
    x = std::move(rows.x), targets = std::move(rows.targets);
  }
  x = ops::linear(ctx, x, transform_weight_, {.bias = transform_bias_, .activation = Activation::kGelu});
  x = ops::layer_norm(ctx, x, norm_weight_, norm_bias_, {.epsilon = norm_epsilon_});
  if (!targets.defined()) return {ops::linear(ctx, x, weight_, {.bias = bias_})};
  return {ops::linear_cross_entropy(ctx, x, weight_, targets, batch.inv_num_targets, {.bias = bias_})};
}

}  // namespace trireme
