#include "models/llama_block.h"

#include "runtime/ops/attention.h"
#include "runtime/ops/layer_norm.h"
#include "runtime/ops/linear.h"
#include "runtime/ops/swiglu.h"

namespace trireme {

LlamaBlock::LlamaBlock(std::string name, const LlamaBlockConfig& config)
    : Block(std::move(name)), config_(config) {
  const std::int64_t c = config.hidden, head_dim = c / config.heads;
  const auto weight = [&](const char* key, std::int64_t out, std::int64_t in, float stddev) {
    return declare(
        {.name = key, .shape = {out, in}, .init = Initializer::normal(stddev), .allows_fp8 = true});
  };
  const auto gain = [&](const char* key) {
    return declare({.name = key, .shape = {c}, .init = Initializer::ones(), .decay = false, .center = 1.0f});
  };
  norm1_weight_ = gain("norm1.weight");
  qkv_weight_ =
      weight("attention.qkv.weight", (config.heads + 2 * config.kv_heads) * head_dim, c, config.init_stddev);
  attention_out_weight_ = weight("attention.out.weight", c, c, config.residual_stddev);
  norm2_weight_ = gain("norm2.weight");
  gate_up_weight_ = weight("mlp.gate_up.weight", 2 * config.ffn, c, config.init_stddev);
  down_weight_ = weight("mlp.down.weight", c, config.ffn, config.residual_stddev);
}

Activations LlamaBlock::forward(Context& ctx, const Activations& input, const Batch&) const {
  const Tensor& x = input.at(0);
  const int heads = static_cast<int>(config_.heads), kv_heads = static_cast<int>(config_.kv_heads);
  Tensor h = ops::linear(ctx, ops::rms_norm(ctx, x, norm1_weight_), qkv_weight_);
  h = ops::rope(ctx, h, {.num_heads = heads, .num_kv_heads = kv_heads, .rope = config_.rope});
  h = ops::attention(ctx, h, {.num_heads = heads});
  const Tensor mid = ops::linear(ctx, h, attention_out_weight_, {.residual = x});
  h = ops::linear(ctx, ops::rms_norm(ctx, mid, norm2_weight_), gate_up_weight_);
  return {ops::linear(ctx, ops::swiglu(ctx, h), down_weight_, {.residual = mid})};
}

}  // namespace trireme
