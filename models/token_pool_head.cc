#include "models/token_pool_head.h"

#include "models/class_loss.h"
#include "models/class_token.h"
#include "models/vit_block.h"
#include "runtime/ops/layer_norm.h"
#include "runtime/ops/linear.h"
#include "runtime/ops/pool.h"
#include "runtime/ops/reshape.h"
#include "runtime/ops/sequence_pool.h"

namespace trireme {

TokenPoolHead::TokenPoolHead(const TokenPoolHeadConfig& config)
    : Block("head", config.prefix),
      pool_(config.pool_kind),
      norm_epsilon_(config.norm_epsilon),
      label_smoothing_(config.label_smoothing) {
  const auto matrix = [&](const std::string& name, std::int64_t out) {
    return declare({.name = name + ".weight",
                    .shape = {out, config.hidden},
                    .init = Initializer::normal(kVitInitStddev)});
  };
  const auto zeros = [&](const std::string& name, std::int64_t n) {
    return declare({.name = name + ".bias", .shape = {n}, .init = Initializer::zeros(), .decay = false});
  };
  norm_weight_ = declare({.name = config.norm + ".weight",
                          .shape = {config.hidden},
                          .init = Initializer::ones(),
                          .decay = false,
                          .center = 1.0f});
  norm_bias_ = zeros(config.norm, config.hidden);
  if (pool_ == TokenPool::kSequence) {
    pool_weight_ = matrix(config.pool, 1);
    pool_bias_ = zeros(config.pool, 1);
  }
  weight_ = matrix(config.classes_name, config.classes);
  bias_ = zeros(config.classes_name, config.classes);
}

Tensor TokenPoolHead::pooled(Context& ctx, const Tensor& x) const {
  const auto norm = [&](const Tensor& y) {
    return ops::layer_norm(ctx, y, norm_weight_, norm_bias_, {.epsilon = norm_epsilon_});
  };
  const std::int64_t samples = x.shape()[0], tokens = x.shape()[1], width = x.shape()[2];
  const Shape as_image{samples, 1, tokens, width};
  switch (pool_) {
    case TokenPool::kClassToken:
      return norm(ops::reshape(ctx, class_token(ctx, x), {samples, width}));
    case TokenPool::kMean:
      return ops::global_pool(ctx, ops::reshape(ctx, norm(x), as_image));
    case TokenPool::kSequence:
      break;
  }
  const Tensor y = norm(x);
  return ops::sequence_pool(ctx, y, ops::linear(ctx, y, pool_weight_, {.bias = pool_bias_}));
}

Activations TokenPoolHead::forward(Context& ctx, const Activations& input, const Batch& batch) const {
  Tensor logits = ops::linear(ctx, pooled(ctx, input.at(0)), weight_, {.bias = bias_});
  return class_loss(ctx, std::move(logits), batch, label_smoothing_);
}

}  // namespace trireme
