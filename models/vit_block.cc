#include "models/vit_block.h"

#include <algorithm>

#include "models/class_token.h"
#include "models/tensor_cut.h"
#include "runtime/base/error.h"
#include "runtime/ops/attention.h"
#include "runtime/ops/chunks.h"
#include "runtime/ops/dropout.h"
#include "runtime/ops/layer_norm.h"
#include "runtime/ops/linear.h"

namespace trireme {

VitBlock::VitBlock(std::string name, std::string prefix, const VitBlockConfig& config)
    : Block(std::move(name), std::move(prefix)),
      config_(config),
      cut_(layer_cut(config.chunks, config.heads)),
      chunks_(static_cast<std::size_t>(cut_.chunks)) {
  const std::int64_t c = config.hidden;
  check_tensor_cut(this->name(), config.chunks, {"heads", config.heads},
                   {{"hidden", c}, {"ffn", config.ffn}});
  if (config.chunks > 1) declare_tensor_calls(TensorCalls::sums(2, 2));
  const auto slice = [&](int chunk, CutDim dim, std::array<int, 3> sections = {1, 0, 0}) {
    return slice_of_chunk(chunk, cut_.chunks, dim, sections);
  };
  norm1_ = declare_norm("ln_1");
  for (int i = 0; i < cut_.chunks; ++i) {
    Chunk& chunk = chunks_[static_cast<std::size_t>(i)];
    chunk.qkv =
        declare_linear("self_attention.in_proj_weight", config.qkv_bias ? "self_attention.in_proj_bias" : "",
                       3 * c, c, slice(i, CutDim::kRows, {1, 1, 1}));
    chunk.out = declare_linear("self_attention.out_proj.weight", "self_attention.out_proj.bias", c, c,
                               slice(i, CutDim::kColumns));
  }
  norm2_ = declare_norm("ln_2");
  for (int i = 0; i < cut_.chunks; ++i) {
    Chunk& chunk = chunks_[static_cast<std::size_t>(i)];
    chunk.up = declare_linear("mlp.0.weight", "mlp.0.bias", config.ffn, c, slice(i, CutDim::kRows));
    chunk.down = declare_linear("mlp.3.weight", "mlp.3.bias", c, config.ffn, slice(i, CutDim::kColumns));
  }
}

VitBlock::Linear VitBlock::declare_linear(const std::string& weight, const std::string& bias,
                                          std::int64_t out, std::int64_t in, const ParameterSlice& slice) {
  Linear linear;
  linear.weight = declare(slice_of(
      {.name = weight, .shape = {out, in}, .init = Initializer::normal(kVitInitStddev), .allows_fp8 = true},
      slice));
  if (bias.empty()) return linear;
  ParameterSpec spec{.name = bias, .shape = {out}, .init = Initializer::zeros(), .decay = false};
  if (slice.dim == CutDim::kRows) {
    linear.bias = declare(slice_of(spec, slice));
  } else if (slice.chunk <= 0) {
    spec.slice.chunk = slice.chunk;  // a whole parameter, stored with the first chunk
    linear.bias = declare(std::move(spec));
  }
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
  const bool drops = config_.dropout > 0.0f || config_.stochastic_depth > 0.0f;
  if (!ctx.training || !drops) {
    return ops::linear(ctx, x, linear.weight, {.bias = linear.bias, .residual = residual});
  }
  return add_dropped(ctx, ops::linear(ctx, x, linear.weight, {.bias = linear.bias}), residual);
}

Tensor VitBlock::add_dropped(Context& ctx, const Tensor& y, const Tensor& residual) const {
  if (!ctx.training || config_.stochastic_depth == 0.0f) {
    return ops::dropout(ctx, y, config_.dropout, residual);
  }
  return ops::drop_path(ctx, ops::dropout(ctx, y, config_.dropout), config_.stochastic_depth, residual);
}

Tensor VitBlock::attend(Context& ctx, const Tensor& h, const Chunk& chunk, ops::LinearCut cut) const {
  return ops::attention(
      ctx, ops::linear(ctx, h, chunk.qkv.weight, {.bias = chunk.qkv.bias, .cut = cut, .groups = cut_.groups}),
      {.num_heads = static_cast<int>(config_.heads) / cut_.chunks,
       .causal = false,
       .dropout_p = config_.dropout});
}

Tensor VitBlock::widen(Context& ctx, const Tensor& h, const Chunk& chunk, ops::LinearCut cut) const {
  return ops::linear(
      ctx, h, chunk.up.weight,
      {.bias = chunk.up.bias, .activation = Activation::kGelu, .cut = cut, .groups = cut_.groups});
}

Tensor VitBlock::given_on(Context& ctx, const Tensor& x) const {
  return config_.class_token_only ? class_token(ctx, x) : x;
}

Activations VitBlock::forward(Context& ctx, const Activations& input, const Batch&) const {
  const Tensor& x = input.at(0);
  if (config_.chunks > 1) return {forward_chunks(ctx, x)};
  const Chunk& all = chunks_.front();
  Tensor h = ops::layer_norm(ctx, x, norm1_.weight, norm1_.bias, {.epsilon = config_.norm_epsilon});
  h = given_on(ctx, attend(ctx, h, all, ops::LinearCut::kNone));
  const Tensor mid = add_branch(ctx, h, all.out, given_on(ctx, x));
  h = ops::layer_norm(ctx, mid, norm2_.weight, norm2_.bias, {.epsilon = config_.norm_epsilon});
  h = widen(ctx, h, all, ops::LinearCut::kNone);
  return {add_branch(ctx, h, all.down, mid)};
}

Tensor VitBlock::forward_chunks(Context& ctx, const Tensor& x) const {
  const Tensor attended = ops::sum_over_chunks(
      ctx, ops::layer_norm(ctx, x, norm1_.weight, norm1_.bias, {.epsilon = config_.norm_epsilon}), cut_,
      [&](const Tensor& h, int i) {
        const Chunk& chunk = chunks_[static_cast<std::size_t>(i)];
        return ops::ChunkOutput{.x = given_on(ctx, attend(ctx, h, chunk, ops::LinearCut::kColumns)),
                                .weight = chunk.out.weight,
                                .bias = chunk.out.bias};
      });
  const Tensor mid = add_dropped(ctx, attended, given_on(ctx, x));
  const Tensor widened = ops::sum_over_chunks(
      ctx, ops::layer_norm(ctx, mid, norm2_.weight, norm2_.bias, {.epsilon = config_.norm_epsilon}), cut_,
      [&](const Tensor& h, int i) {
        const Chunk& chunk = chunks_[static_cast<std::size_t>(i)];
        return ops::ChunkOutput{.x = widen(ctx, h, chunk, ops::LinearCut::kColumns),
                                .weight = chunk.down.weight,
                                .bias = chunk.down.bias};
      });
  return add_dropped(ctx, widened, mid);
}

float stochastic_depth_of_layer(float rate, std::int64_t layer, std::int64_t layers) {
  return rate * static_cast<float>(layer) / static_cast<float>(std::max<std::int64_t>(1, layers - 1));
}

}  // namespace trireme
