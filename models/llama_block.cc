#include "models/llama_block.h"

#include <utility>

#include "models/key_bounds.h"
#include "models/sequence_calls.h"
#include "models/tensor_cut.h"
#include "runtime/base/error.h"
#include "runtime/ops/add.h"
#include "runtime/ops/geglu.h"
#include "runtime/ops/head_norm.h"
#include "runtime/ops/swiglu.h"

namespace trireme {

LlamaBlock::LlamaBlock(std::string name, const LlamaBlockConfig& config)
    : Block(std::move(name)),
      config_(config),
      cut_(layer_cut(config.chunks, config.kv_heads)),
      chunks_(static_cast<std::size_t>(cut_.chunks)) {
  const std::int64_t c = config.hidden, head_dim = config.head_dim;
  check_tensor_cut(this->name(), config.chunks, {"kv_heads", config.kv_heads},
                   {{"hidden", c}, {"ffn", config.ffn}});
  if (config.chunks > 1) {
    const TensorCalls calls = config.norm_position == NormPosition::kBefore  ? pre_norm_sequence_calls()
                              : config.norm_position == NormPosition::kAfter ? post_norm_sequence_calls()
                                                                             : both_norms_sequence_calls();
    declare_tensor_calls(TensorCalls::sums(2, 2));
    declare_sequence_calls(calls);
    if (config.qk_norm != QkNorm::kNone) declare_shared_parameters(0);
  }
  const auto weight = [&](const char* key, std::int64_t out, std::int64_t in, float stddev, int chunk,
                          CutDim dim, std::array<int, 3> sections = {1, 0, 0}) {
    return declare(
        slice_of({.name = key, .shape = {out, in}, .init = Initializer::normal(stddev), .allows_fp8 = true},
                 slice_of_chunk(chunk, cut_.chunks, dim, sections)));
  };
  declare_gains();
  const int group = static_cast<int>(config.heads / config.kv_heads);
  for (int i = 0; i < cut_.chunks; ++i) {
    Chunk& chunk = chunks_[static_cast<std::size_t>(i)];
    const std::int64_t packed = (config.heads + 2 * config.kv_heads) * head_dim;
    const std::array<int, 3> sections{group, 1, 1};
    chunk.qkv_weight =
        weight("attention.qkv.weight", packed, c, config.init_stddev, i, CutDim::kRows, sections);
    if (config.qkv_bias) {
      chunk.qkv_bias = declare(slice_of(
          {.name = "attention.qkv.bias", .shape = {packed}, .init = Initializer::zeros(), .decay = false},
          slice_of_chunk(i, cut_.chunks, CutDim::kRows, sections)));
    }
    chunk.out_weight = weight("attention.out.weight", c, config.heads * head_dim, config.residual_stddev, i,
                              CutDim::kColumns);
  }
  for (int i = 0; i < cut_.chunks; ++i) {
    Chunk& chunk = chunks_[static_cast<std::size_t>(i)];
    chunk.gate_up_weight =
        weight("mlp.gate_up.weight", 2 * config.ffn, c, config.init_stddev, i, CutDim::kRows, {1, 1, 0});
    chunk.down_weight = weight("mlp.down.weight", c, config.ffn, config.residual_stddev, i, CutDim::kColumns);
  }
}

void LlamaBlock::declare_gains() {
  const auto gain = [&](const char* key, std::int64_t width) {
    const bool offset = config_.norm_unit_offset;
    return declare({.name = key,
                    .shape = {width},
                    .init = offset ? Initializer::zeros() : Initializer::ones(),
                    .decay = false,
                    .center = offset ? 0.0f : 1.0f});
  };
  const std::int64_t c = config_.hidden;
  if (config_.norm_position != NormPosition::kAfter) norm1_weight_ = gain("norm1.weight", c);
  if (config_.norm_position != NormPosition::kBefore) {
    attention_norm_weight_ = gain("attention.norm.weight", c);
    mlp_norm_weight_ = gain("mlp.norm.weight", c);
  }
  if (config_.qk_norm != QkNorm::kNone) {
    const bool whole = config_.qk_norm == QkNorm::kWhole;
    q_norm_weight_ = gain("attention.q_norm.weight", (whole ? config_.heads : 1) * config_.head_dim);
    k_norm_weight_ = gain("attention.k_norm.weight", (whole ? config_.kv_heads : 1) * config_.head_dim);
  }
  if (config_.norm_position != NormPosition::kAfter) norm2_weight_ = gain("norm2.weight", c);
}

ops::NormOptions LlamaBlock::norm_options() const {
  return {.epsilon = config_.norm_epsilon,
          .row_groups = config_.chunks,
          .gamma_offset = config_.norm_unit_offset ? 1.0f : 0.0f};
}

Tensor LlamaBlock::norm_before(Context& ctx, const Tensor& x, ParamRef weight) const {
  return weight.defined() ? ops::rms_norm(ctx, x, weight, norm_options()) : x;
}

Tensor LlamaBlock::add_branch(Context& ctx, const Tensor& branch, const Tensor& x, ParamRef weight) const {
  return ops::add(ctx, weight.defined() ? ops::rms_norm(ctx, branch, weight, norm_options()) : branch, x);
}

// Rotary positions count from the start of the row: scores depend on differences of positions only.
ops::QkvProjection LlamaBlock::projection(const Chunk& chunk, ops::LinearCut cut,
                                          const ops::RopeOptions& rope) const {
  const ops::LinearOptions linear{.bias = chunk.qkv_bias, .cut = cut, .groups = cut_.groups};
  const ops::HeadNormOptions norm{.num_heads = rope.num_heads,
                                  .num_kv_heads = rope.num_kv_heads,
                                  .epsilon = config_.norm_epsilon,
                                  .whole = config_.qk_norm == QkNorm::kWhole,
                                  .gamma_offset = config_.norm_unit_offset ? 1.0f : 0.0f};
  return [weight = chunk.qkv_weight, q_gamma = q_norm_weight_, k_gamma = k_norm_weight_, linear, norm, rope](
             Context& ctx, const Tensor& x) {
    Tensor qkv = ops::linear(ctx, x, weight, linear);
    if (q_gamma.defined()) qkv = ops::head_norm(ctx, qkv, q_gamma, k_gamma, norm);
    return rope.rope.num_pairs > 0 ? ops::rope(ctx, std::move(qkv), rope) : qkv;
  };
}

Tensor LlamaBlock::attend(Context& ctx, const Tensor& h, const Tensor& bounds, const Chunk& chunk,
                          ops::LinearCut cut) const {
  const int heads = static_cast<int>(config_.heads) / cut_.chunks;
  const int kv_heads = static_cast<int>(config_.kv_heads) / cut_.chunks;
  const ops::RopeOptions rope{.num_heads = heads, .num_kv_heads = kv_heads, .rope = config_.rope};
  return ops::projected_attention(ctx, h, projection(chunk, cut, rope),
                                  {.num_heads = heads,
                                   .num_kv_heads = kv_heads,
                                   .key_bounds = bounds,
                                   .window = config_.window,
                                   .scale = config_.score_scale});
}

ops::LinearInput LlamaBlock::widen(Context& ctx, Tensor h, const Chunk& chunk, ops::LinearCut cut) const {
  h = ops::linear(ctx, h, chunk.gate_up_weight, {.cut = cut, .groups = cut_.groups});
  if (config_.mlp_gate == MlpGate::kGelu) return ops::geglu(ctx, h, ops::GegluForm::kGateUpTanh);
  if (cut != ops::LinearCut::kNone) return ops::swiglu(ctx, h);
  return ops::swiglu(ctx, h, {.writer = chunk.gate_up_weight, .reader = chunk.down_weight});
}

Activations LlamaBlock::forward(Context& ctx, const Activations& input, const Batch&) const {
  const Tensor& x = input.at(0);
  const Tensor bounds = bounds_of(input);
  if (config_.chunks > 1) return with_bounds(forward_chunks(ctx, x, bounds), bounds);
  const Chunk& all = chunks_.front();
  const auto project_and_add = [&](const ops::LinearInput& h, const Tensor& residual, ParamRef weight,
                                   ParamRef norm) {
    if (!norm.defined()) return ops::linear(ctx, h, weight, {.residual = residual});
    return add_branch(ctx, ops::linear(ctx, h, weight), residual, norm);
  };
  Tensor h = attend(ctx, norm_before(ctx, x, norm1_weight_), bounds, all, ops::LinearCut::kNone);
  const Tensor mid = project_and_add(h, x, all.out_weight, attention_norm_weight_);
  h = norm_before(ctx, mid, norm2_weight_);
  const ops::LinearInput widened = widen(ctx, std::move(h), all, ops::LinearCut::kNone);
  return with_bounds(project_and_add(widened, mid, all.down_weight, mlp_norm_weight_), bounds);
}

Tensor LlamaBlock::forward_chunks(Context& ctx, const Tensor& x, const Tensor& bounds) const {
  const Tensor attended =
      ops::sum_over_chunks(ctx, norm_before(ctx, x, norm1_weight_), cut_, [&](const Tensor& h, int i) {
        const Chunk& chunk = chunks_[static_cast<std::size_t>(i)];
        return ops::ChunkOutput{.x = attend(ctx, h, bounds, chunk, ops::LinearCut::kColumns),
                                .weight = chunk.out_weight,
                                .bias = {}};
      });
  const Tensor mid = add_branch(ctx, attended, x, attention_norm_weight_);
  const Tensor widened =
      ops::sum_over_chunks(ctx, norm_before(ctx, mid, norm2_weight_), cut_, [&](Tensor h, int i) {
        const Chunk& chunk = chunks_[static_cast<std::size_t>(i)];
        return ops::ChunkOutput{.x = widen(ctx, std::move(h), chunk, ops::LinearCut::kColumns).x,
                                .weight = chunk.down_weight,
                                .bias = {}};
      });
  return add_branch(ctx, widened, mid, mlp_norm_weight_);
}

}  // namespace trireme
