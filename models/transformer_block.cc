#include "models/transformer_block.h"

#include "runtime/ops/attention.h"
#include "runtime/ops/dropout.h"
#include "runtime/ops/layer_norm.h"
#include "runtime/ops/linear.h"

namespace trireme {

TransformerBlock::TransformerBlock(std::string name, const TransformerBlockConfig& config)
    : Block(std::move(name)), config_(config) {
  const std::int64_t c = config.hidden;
  const auto weight = [&](const char* key, std::int64_t out, std::int64_t in, float stddev) {
    return declare(
        {.name = key, .shape = {out, in}, .init = Initializer::normal(stddev), .allows_fp8 = true});
  };
  const auto bias = [&](const char* key, std::int64_t n) {
    return declare({.name = key, .shape = {n}, .init = Initializer::zeros(), .decay = false});
  };
  const auto gain = [&](const char* key) {
    return declare({.name = key, .shape = {c}, .init = Initializer::ones(), .decay = false, .center = 1.0f});
  };
  norm1_weight_ = gain("norm1.weight");
  norm1_bias_ = bias("norm1.bias", c);
  qkv_weight_ = weight("attention.qkv.weight", 3 * c, c, config.init_stddev);
  qkv_bias_ = bias("attention.qkv.bias", 3 * c);
  attention_out_weight_ = weight("attention.out.weight", c, c, config.residual_stddev);
  attention_out_bias_ = bias("attention.out.bias", c);
  norm2_weight_ = gain("norm2.weight");
  norm2_bias_ = bias("norm2.bias", c);
  up_weight_ = weight("mlp.up.weight", 4 * c, c, config.init_stddev);
  up_bias_ = bias("mlp.up.bias", 4 * c);
  down_weight_ = weight("mlp.down.weight", c, 4 * c, config.residual_stddev);
  down_bias_ = bias("mlp.down.bias", c);
}

Tensor TransformerBlock::project(Context& ctx, const Tensor& x, ParamRef weight, ParamRef bias,
                                 const Tensor& residual) const {
  if (!ctx.training || config_.dropout == 0.0f) {
    return ops::linear(ctx, x, weight, {.bias = bias, .residual = residual});
  }
  return ops::dropout(ctx, ops::linear(ctx, x, weight, {.bias = bias}), config_.dropout, residual);
}

Activations TransformerBlock::forward(Context& ctx, const Activations& input, const Batch&) const {
  const Tensor& x = input.at(0);
  Tensor h = ops::layer_norm(ctx, x, norm1_weight_, norm1_bias_);
  h = ops::linear(ctx, h, qkv_weight_, {.bias = qkv_bias_});
  h = ops::attention(
      ctx, h,
      {.num_heads = static_cast<int>(config_.heads), .causal = config_.causal, .dropout_p = config_.dropout});
  const Tensor mid = project(ctx, h, attention_out_weight_, attention_out_bias_, x);
  h = ops::layer_norm(ctx, mid, norm2_weight_, norm2_bias_);
  h = ops::linear(ctx, h, up_weight_, {.bias = up_bias_, .activation = Activation::kGeluTanh});
  return {project(ctx, h, down_weight_, down_bias_, mid)};
}

}  // namespace trireme
