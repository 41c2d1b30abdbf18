#include "models/bert_block.h"

#include "models/bert_embedding.h"
#include "runtime/ops/attention.h"
#include "runtime/ops/dropout.h"
#include "runtime/ops/layer_norm.h"
#include "runtime/ops/linear.h"

namespace trireme {

BertBlock::BertBlock(std::string name, const BertBlockConfig& config)
    : Block(std::move(name)), config_(config) {
  const std::int64_t c = config.hidden;
  qkv_ = declare_linear("attention.qkv", 3 * c, c);
  attention_out_ = declare_linear("attention.out", c, c);
  norm1_ = declare_norm("norm1");
  up_ = declare_linear("mlp.up", 4 * c, c);
  down_ = declare_linear("mlp.down", c, 4 * c);
  norm2_ = declare_norm("norm2");
}

BertBlock::Linear BertBlock::declare_linear(const std::string& key, std::int64_t out, std::int64_t in) {
  return {
      .weight = declare({.name = key + ".weight",
                         .shape = {out, in},
                         .init = Initializer::normal(kBertInitStddev),
                         .allows_fp8 = true}),
      .bias = declare({.name = key + ".bias", .shape = {out}, .init = Initializer::zeros(), .decay = false})};
}

BertBlock::Linear BertBlock::declare_norm(const std::string& key) {
  const Shape shape{config_.hidden};
  return {
      .weight = declare({.name = key + ".weight",
                         .shape = shape,
                         .init = Initializer::ones(),
                         .decay = false,
                         .center = 1.0f}),
      .bias = declare({.name = key + ".bias", .shape = shape, .init = Initializer::zeros(), .decay = false})};
}

Tensor BertBlock::add_and_norm(Context& ctx, const Tensor& x, const Linear& linear, const Tensor& residual,
                               const Linear& norm) const {
  const bool drops = ctx.training && config_.dropout > 0.0f;
  Tensor sum = drops ? ops::dropout(ctx, ops::linear(ctx, x, linear.weight, {.bias = linear.bias}),
                                    config_.dropout, residual)
                     : ops::linear(ctx, x, linear.weight, {.bias = linear.bias, .residual = residual});
  return ops::layer_norm(ctx, sum, norm.weight, norm.bias, kBertNormEpsilon);
}

Activations BertBlock::forward(Context& ctx, const Activations& input, const Batch&) const {
  const Tensor& x = input.at(0);
  Tensor h = ops::linear(ctx, x, qkv_.weight, {.bias = qkv_.bias});
  const Tensor bounds = input.size() > 1 ? input[1] : Tensor();
  h = ops::attention(ctx, h,
                     {.num_heads = static_cast<int>(config_.heads),
                      .causal = false,
                      .dropout_p = config_.dropout,
                      .key_bounds = bounds});
  const Tensor mid = add_and_norm(ctx, h, attention_out_, x, norm1_);
  h = ops::linear(ctx, mid, up_.weight, {.bias = up_.bias, .activation = Activation::kGeluTanh});
  Tensor out = add_and_norm(ctx, h, down_, mid, norm2_);
  if (!bounds.defined()) return {std::move(out)};
  return {std::move(out), bounds};
}

}  // namespace trireme
