#include "models/transformer_block.h"

#include <utility>

#include "models/key_bounds.h"
#include "models/sequence_calls.h"
#include "models/tensor_cut.h"
#include "runtime/base/error.h"
#include "runtime/ops/attention.h"
#include "runtime/ops/chunks.h"
#include "runtime/ops/dropout.h"
#include "runtime/ops/layer_norm.h"

namespace trireme {
namespace {

ParameterSpec weight(const char* name, const Shape& shape, float stddev) {
  return {.name = name, .shape = shape, .init = Initializer::normal(stddev), .allows_fp8 = true};
}

ParameterSpec zeros(std::string name, std::int64_t size) {
  return {.name = std::move(name), .shape = {size}, .init = Initializer::zeros(), .decay = false};
}

}  // namespace

TransformerBlock::TransformerBlock(std::string name, const TransformerBlockConfig& config)
    : Block(std::move(name)),
      config_(config),
      cut_(layer_cut(config.chunks, config.heads)),
      chunks_(static_cast<std::size_t>(cut_.chunks)) {
  const std::int64_t c = config.hidden;
  check_tensor_cut(this->name(), config.chunks, {"heads", config.heads}, {{"hidden", c}});
  if (config.chunks > 1) {
    declare_tensor_calls(TensorCalls::sums(2, 2));
    declare_sequence_calls(pre_norm_sequence_calls());
  }
  const auto gain = [&](const char* key) {
    return declare({.name = key, .shape = {c}, .init = Initializer::ones(), .decay = false, .center = 1.0f});
  };
  const auto slice = [&](int chunk, CutDim dim, std::array<int, 3> sections = {1, 0, 0}) {
    return slice_of_chunk(chunk, cut_.chunks, dim, sections);
  };
  constexpr std::array<int, 3> kPacked = {1, 1, 1};  // [q | k | v]
  // The bias of a row-parallel layer is added once, so it is a parameter of the first chunk only.
  const auto declare_rows_bias = [&](const char* name, int chunk) {
    if (chunk > 0) return ParamRef{};
    ParameterSpec bias = zeros(name, c);
    if (cut_.chunks > 1) bias.slice.chunk = chunk;
    return declare(std::move(bias));
  };
  norm1_weight_ = gain("norm1.weight");
  norm1_bias_ = declare(zeros("norm1.bias", c));
  for (int i = 0; i < cut_.chunks; ++i) {
    Chunk& chunk = chunks_[static_cast<std::size_t>(i)];
    chunk.qkv_weight = declare(slice_of(weight("attention.qkv.weight", {3 * c, c}, config.init_stddev),
                                        slice(i, CutDim::kRows, kPacked)));
    chunk.qkv_bias = declare(slice_of(zeros("attention.qkv.bias", 3 * c), slice(i, CutDim::kRows, kPacked)));
    chunk.out_weight = declare(
        slice_of(weight("attention.out.weight", {c, c}, config.residual_stddev), slice(i, CutDim::kColumns)));
    chunk.out_bias = declare_rows_bias("attention.out.bias", i);
  }
  norm2_weight_ = gain("norm2.weight");
  norm2_bias_ = declare(zeros("norm2.bias", c));
  for (int i = 0; i < cut_.chunks; ++i) {
    Chunk& chunk = chunks_[static_cast<std::size_t>(i)];
    chunk.up_weight =
        declare(slice_of(weight("mlp.up.weight", {4 * c, c}, config.init_stddev), slice(i, CutDim::kRows)));
    chunk.up_bias = declare(slice_of(zeros("mlp.up.bias", 4 * c), slice(i, CutDim::kRows)));
    chunk.down_weight = declare(
        slice_of(weight("mlp.down.weight", {c, 4 * c}, config.residual_stddev), slice(i, CutDim::kColumns)));
    chunk.down_bias = declare_rows_bias("mlp.down.bias", i);
  }
}

Tensor TransformerBlock::attend(Context& ctx, const Tensor& h, const Tensor& bounds, const Chunk& chunk,
                                ops::LinearCut cut) const {
  return ops::projected_attention(ctx, h,
                                  [weight = chunk.qkv_weight, bias = chunk.qkv_bias, cut,
                                   groups = cut_.groups](Context& inner, const Tensor& x) {
                                    return ops::linear(inner, x, weight,
                                                       {.bias = bias, .cut = cut, .groups = groups});
                                  },
                                  {.num_heads = static_cast<int>(config_.heads) / cut_.chunks,
                                   .causal = config_.causal,
                                   .dropout_p = config_.dropout,
                                   .key_bounds = bounds});
}

Tensor TransformerBlock::widen(Context& ctx, const Tensor& h, const Chunk& chunk, ops::LinearCut cut) const {
  return ops::linear(
      ctx, h, chunk.up_weight,
      {.bias = chunk.up_bias, .activation = Activation::kGeluTanh, .cut = cut, .groups = cut_.groups});
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
  const Tensor bounds = bounds_of(input);
  if (config_.chunks > 1) return with_bounds(forward_chunks(ctx, x, bounds), bounds);
  const Chunk& all = chunks_.front();
  const ops::NormOptions norm{.epsilon = config_.norm_epsilon};
  Tensor h = ops::layer_norm(ctx, x, norm1_weight_, norm1_bias_, norm);
  h = attend(ctx, h, bounds, all, ops::LinearCut::kNone);
  const Tensor mid = project(ctx, h, all.out_weight, all.out_bias, x);
  h = ops::layer_norm(ctx, mid, norm2_weight_, norm2_bias_, norm);
  h = widen(ctx, h, all, ops::LinearCut::kNone);
  return with_bounds(project(ctx, h, all.down_weight, all.down_bias, mid), bounds);
}

Tensor TransformerBlock::forward_chunks(Context& ctx, const Tensor& x, const Tensor& bounds) const {
  const ops::NormOptions norm{.epsilon = config_.norm_epsilon, .row_groups = config_.chunks};
  const Tensor attended = ops::sum_over_chunks(
      ctx, ops::layer_norm(ctx, x, norm1_weight_, norm1_bias_, norm), cut_, [&](const Tensor& h, int i) {
        const Chunk& chunk = chunks_[static_cast<std::size_t>(i)];
        return ops::ChunkOutput{.x = attend(ctx, h, bounds, chunk, ops::LinearCut::kColumns),
                                .weight = chunk.out_weight,
                                .bias = chunk.out_bias};
      });
  const Tensor mid = ops::stream_dropout(ctx, attended, config_.dropout, x);
  const Tensor widened = ops::sum_over_chunks(
      ctx, ops::layer_norm(ctx, mid, norm2_weight_, norm2_bias_, norm), cut_, [&](const Tensor& h, int i) {
        const Chunk& chunk = chunks_[static_cast<std::size_t>(i)];
        return ops::ChunkOutput{.x = widen(ctx, h, chunk, ops::LinearCut::kColumns),
                                .weight = chunk.down_weight,
                                .bias = chunk.down_bias};
      });
  return ops::stream_dropout(ctx, widened, config_.dropout, mid);
}

}  // namespace trireme
