#include "models/vit_block.h"

#include <algorithm>

#include "runtime/ops/attention.h"
#include "runtime/ops/dropout.h"
#include "runtime/ops/layer_norm.h"
#include "runtime/ops/linear.h"

namespace trireme {

VitBlock::VitBlock(std::string name, std::string prefix, const VitBlockConfig& config)
    : Block(std::move(name), std::move(prefix)), config_(config) {
  const std::int64_t c = config.hidden;
  norm1_ = declare_norm("ln_1");
  qkv_ = declare_linear("self_attention.in_proj_weight", config.qkv_bias ? "self_attention.in_proj_bias" : "",
                        3 * c, c);
  out_ = declare_linear("self_attention.out_proj.weight", "self_attention.out_proj.bias", c, c);
  norm2_ = declare_norm("ln_2");
  up_ = declare_linear("mlp.0.weight", "mlp.0.bias", config.ffn, c);
  down_ = declare_linear("mlp.3.weight", "mlp.3.bias", c, config.ffn);
}

VitBlock::Linear VitBlock::declare_linear(const std::string& weight, const std::string& bias,
                                          std::int64_t out, std::int64_t in) {
  Linear linear;
  linear.weight = declare(
      {.name = weight, .shape = {out, in}, .init = Initializer::normal(kVitInitStddev), .allows_fp8 = true});
  if (bias.empty()) return linear;
  linear.bias = declare({.name = bias, .shape = {out}, .init = Initializer::zeros(), .decay = false});
  return linear;
}

VitBlock::Linear VitBlock::declare_norm(const std::string& key) {
  const Shape shape{config_.hidden};
  return {
      .weight = declare({.name = key + ".weight",
                         .shape = shape,
                         .init = Initializer::ones(),
                         .decay = false,
                         .center = 1.0f}),
      .bias = declare({.name = key + ".bias", .shape = shape, .init = Initializer::zeros(), .decay = false})};
}

Tensor VitBlock::add_branch(Context& ctx, const Tensor& x, const Linear& linear,
                            const Tensor& residual) const {
  const bool drops = ctx.training && config_.dropout > 0.0f;
  const bool skips = ctx.training && config_.stochastic_depth > 0.0f;
  if (!drops && !skips) {
    return ops::linear(ctx, x, linear.weight, {.bias = linear.bias, .residual = residual});
  }
  const Tensor y = ops::linear(ctx, x, linear.weight, {.bias = linear.bias});
  if (!skips) return ops::dropout(ctx, y, config_.dropout, residual);
  return ops::drop_path(ctx, ops::dropout(ctx, y, config_.dropout), config_.stochastic_depth, residual);
}

Activations VitBlock::forward(Context& ctx, const Activations& input, const Batch&) const {
  const Tensor& x = input.at(0);
  Tensor h = ops::layer_norm(ctx, x, norm1_.weight, norm1_.bias, config_.norm_epsilon);
  h = ops::linear(ctx, h, qkv_.weight, {.bias = qkv_.bias});
  h = ops::attention(
      ctx, h, {.num_heads = static_cast<int>(config_.heads), .causal = false, .dropout_p = config_.dropout});
  const Tensor mid = add_branch(ctx, h, out_, x);
  h = ops::layer_norm(ctx, mid, norm2_.weight, norm2_.bias, config_.norm_epsilon);
  h = ops::linear(ctx, h, up_.weight, {.bias = up_.bias, .activation = Activation::kGelu});
  return {add_branch(ctx, h, down_, mid)};
}

float stochastic_depth_of_layer(float rate, std::int64_t layer, std::int64_t layers) {
  return rate * static_cast<float>(layer) / static_cast<float>(std::max<std::int64_t>(1, layers - 1));
}

}  // namespace trireme
