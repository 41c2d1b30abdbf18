#include "models/bert_block.h"

#include <utility>

#include "models/bert_embedding.h"
#include "models/key_bounds.h"
#include "models/sequence_calls.h"
#include "models/tensor_cut.h"
#include "runtime/base/error.h"
#include "runtime/ops/attention.h"
#include "runtime/ops/chunks.h"
#include "runtime/ops/dropout.h"
#include "runtime/ops/layer_norm.h"
#include "runtime/ops/linear.h"

namespace trireme {

BertBlock::BertBlock(std::string name, const BertBlockConfig& config)
    : Block(std::move(name)),
      config_(config),
      cut_(layer_cut(config.chunks, config.heads)),
      chunks_(static_cast<std::size_t>(cut_.chunks)) {
  const std::int64_t c = config.hidden;
  check_tensor_cut(this->name(), config.chunks, {"heads", config.heads}, {{"hidden", c}});
  if (config.chunks > 1) {
    declare_tensor_calls(TensorCalls::sums(2, 2));
    declare_sequence_calls(post_norm_sequence_calls());
  }
  const auto slice = [&](int chunk, CutDim dim, std::array<int, 3> sections = {1, 0, 0}) {
    return slice_of_chunk(chunk, cut_.chunks, dim, sections);
  };
  for (int i = 0; i < cut_.chunks; ++i) {
    Chunk& chunk = chunks_[static_cast<std::size_t>(i)];
    chunk.qkv = declare_linear("attention.qkv", 3 * c, c, slice(i, CutDim::kRows, {1, 1, 1}));
    chunk.attention_out = declare_linear("attention.out", c, c, slice(i, CutDim::kColumns));
  }
  norm1_ = declare_norm("norm1");
  for (int i = 0; i < cut_.chunks; ++i) {
    Chunk& chunk = chunks_[static_cast<std::size_t>(i)];
    chunk.up = declare_linear("mlp.up", 4 * c, c, slice(i, CutDim::kRows));
    chunk.down = declare_linear("mlp.down", c, 4 * c, slice(i, CutDim::kColumns));
  }
  norm2_ = declare_norm("norm2");
}

BertBlock::Linear BertBlock::declare_linear(const std::string& key, std::int64_t out, std::int64_t in,
                                            const ParameterSlice& slice) {
  const ParamRef weight = declare(slice_of({.name = key + ".weight",
                                            .shape = {out, in},
                                            .init = Initializer::normal(kBertInitStddev),
                                            .allows_fp8 = true},
                                           slice));
  ParameterSpec bias{.name = key + ".bias", .shape = {out}, .init = Initializer::zeros(), .decay = false};
  if (slice.dim == CutDim::kRows) return {.weight = weight, .bias = declare(slice_of(bias, slice))};
  if (slice.chunk > 0) return {.weight = weight, .bias = {}};
  bias.slice.chunk = slice.chunk;  // a whole parameter, stored with the first chunk
  return {.weight = weight, .bias = declare(std::move(bias))};
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
  return ops::layer_norm(ctx, sum, norm.weight, norm.bias, {.epsilon = config_.norm_epsilon});
}

Tensor BertBlock::attend(Context& ctx, const Tensor& x, const Tensor& bounds, const Chunk& chunk,
                         ops::LinearCut cut) const {
  return ops::projected_attention(
      ctx, x,
      [qkv = chunk.qkv, cut, groups = cut_.groups](Context& inner, const Tensor& input) {
        return ops::linear(inner, input, qkv.weight, {.bias = qkv.bias, .cut = cut, .groups = groups});
      },
      {.num_heads = static_cast<int>(config_.heads) / cut_.chunks,
       .causal = false,
       .dropout_p = config_.dropout,
       .key_bounds = bounds});
}

Activations BertBlock::forward(Context& ctx, const Activations& input, const Batch&) const {
  const Tensor& x = input.at(0);
  const Tensor bounds = bounds_of(input);
  Tensor out;
  if (config_.chunks > 1) {
    out = forward_chunks(ctx, x, bounds);
  } else {
    const Chunk& all = chunks_.front();
    Tensor h = attend(ctx, x, bounds, all, ops::LinearCut::kNone);
    const Tensor mid = add_and_norm(ctx, h, all.attention_out, x, norm1_);
    h = ops::linear(ctx, mid, all.up.weight, {.bias = all.up.bias, .activation = Activation::kGelu});
    out = add_and_norm(ctx, h, all.down, mid, norm2_);
  }
  return with_bounds(std::move(out), bounds);
}

Tensor BertBlock::forward_chunks(Context& ctx, const Tensor& x, const Tensor& bounds) const {
  const auto norm = [&](const Tensor& sum, const Tensor& residual, const Linear& parameters) {
    return ops::layer_norm(ctx, ops::stream_dropout(ctx, sum, config_.dropout, residual), parameters.weight,
                           parameters.bias, {.epsilon = config_.norm_epsilon, .row_groups = config_.chunks});
  };
  const Tensor attended = ops::sum_over_chunks(ctx, x, cut_, [&](const Tensor& h, int i) {
    const Chunk& chunk = chunks_[static_cast<std::size_t>(i)];
    return ops::ChunkOutput{.x = attend(ctx, h, bounds, chunk, ops::LinearCut::kColumns),
                            .weight = chunk.attention_out.weight,
                            .bias = chunk.attention_out.bias};
  });
  const Tensor mid = norm(attended, x, norm1_);
  const Tensor widened = ops::sum_over_chunks(ctx, mid, cut_, [&](const Tensor& h, int i) {
    const Chunk& chunk = chunks_[static_cast<std::size_t>(i)];
    Tensor wide = ops::linear(ctx, h, chunk.up.weight,
                              {.bias = chunk.up.bias,
                               .activation = Activation::kGelu,
                               .cut = ops::LinearCut::kColumns,
                               .groups = cut_.groups});
    return ops::ChunkOutput{.x = std::move(wide), .weight = chunk.down.weight, .bias = chunk.down.bias};
  });
  return norm(widened, mid, norm2_);
}

}  // namespace trireme
