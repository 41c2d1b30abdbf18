#include "models/token_head.h"

#include <utility>

#include "runtime/base/error.h"
#include "runtime/ops/chunks.h"
#include "runtime/ops/linear.h"
#include "runtime/ops/linear_cross_entropy.h"
#include "runtime/ops/piece_cross_entropy.h"
#include "runtime/ops/sequence_shard.h"

namespace trireme {
namespace {

// Concatenates pieces [..., V / chunks] to [..., V], for callers that want logits without a loss.
Tensor side_by_side(Context& ctx, const std::vector<Tensor>& pieces, int chunks) {
  TRIREME_CHECK(ctx.tape == nullptr && pieces.size() == static_cast<std::size_t>(chunks),
                "logits without targets are for one tensor rank that does not train");
  const Shape& shape = pieces.front().shape();
  const std::int64_t rows = shape.num_rows(), width = shape.dim(-1);
  const Tensor all = ctx.empty({shape.dim(0), shape.dim(1), chunks * width}, pieces.front().dtype());
  for (int i = 0; i < chunks; ++i) {
    for (std::int64_t row = 0; row < rows; ++row) {
      ctx.backend->copy(ctx.exec, all.slice((row * chunks + i) * width, {width}),
                        pieces[static_cast<std::size_t>(i)].slice(row * width, {width}));
    }
  }
  return all;
}

}  // namespace

TokenHead::TokenHead(const TokenHeadConfig& config)
    : Block("head"),
      norm_{.epsilon = config.norm_epsilon,
            .row_groups = config.layer_chunks,
            .gamma_offset = config.norm_unit_offset ? 1.0f : 0.0f},
      loss_parts_(config.loss_parts) {
  TRIREME_CHECK(config.loss_parts >= 1 && (config.loss_parts == 1 || config.chunks == 1),
                "head: {} loss parts do not go with a vocabulary in {} chunks", config.loss_parts,
                config.chunks);
  norm_weight_ = declare({.name = "norm.weight",
                          .shape = {config.hidden},
                          .init = config.norm_unit_offset ? Initializer::zeros() : Initializer::ones(),
                          .decay = false,
                          .center = config.norm_unit_offset ? 0.0f : 1.0f});
  if (!config.rms_norm) {
    norm_bias_ = declare(
        {.name = "norm.bias", .shape = {config.hidden}, .init = Initializer::zeros(), .decay = false});
  }
  for (int i = 0; i < config.chunks; ++i) {
    const ParameterSlice slice = slice_of_chunk(i, config.chunks, CutDim::kRows);
    weights_.push_back(
        declare(slice_of({.name = "weight",
                          .shape = {config.vocab, config.hidden},
                          .init = Initializer::normal(config.init_stddev),
                          .tied_to = config.tied ? "embedding.tokens" + chunk_suffix(slice) : ""},
                         slice)));
  }
  using enum TensorCall;
  if (config.chunks > 1) {
    declare_tensor_calls(TensorCalls::sums(1, 1));
    declare_sequence_calls({.forward = {kGatherRows, kSum}, .backward = {kGatherRows, kScatterSum, kSum}});
  } else if (config.layer_chunks > 1) {
    // The gradient of the weight needs the rows again, except where forward has computed it.
    declare_sequence_calls(
        {.forward = {kGatherRows},
         .backward = config.loss_parts > 1 ? std::vector{kSum} : std::vector{kGatherRows, kSum}});
  }
}

Activations TokenHead::forward(Context& ctx, const Activations& input, const Batch& batch) const {
  const Tensor x = norm_bias_.defined() ? ops::layer_norm(ctx, input.at(0), norm_weight_, norm_bias_, norm_)
                                        : ops::rms_norm(ctx, input.at(0), norm_weight_, norm_);
  if (weights_.size() > 1) return forward_chunks(ctx, x, batch);
  const Tensor whole = ops::to_whole(ctx, x);
  if (!batch.targets.defined()) return {ops::linear(ctx, whole, weights_.front())};
  return {ops::linear_cross_entropy(ctx, whole, weights_.front(), batch.targets, batch.inv_num_targets,
                                    {.parts = loss_parts_})};
}

Activations TokenHead::forward_chunks(Context& ctx, const Tensor& x, const Batch& batch) const {
  const int chunks = static_cast<int>(weights_.size());
  const ChunkRange own = ops::own_chunks(ctx, chunks);
  std::vector<Tensor> copies = ops::copy_to_chunks(ctx, x, own);
  std::vector<Tensor> logits;
  for (int i = 0; i < own.count; ++i) {
    logits.push_back(ops::linear(ctx, std::exchange(copies[static_cast<std::size_t>(i)], Tensor()),
                                 weights_[static_cast<std::size_t>(own.first + i)],
                                 {.cut = ops::LinearCut::kColumns}));
  }
  if (!batch.targets.defined()) return {side_by_side(ctx, logits, chunks)};
  return {ops::piece_cross_entropy(ctx, std::move(logits), chunks, batch.targets, batch.inv_num_targets)};
}

}  // namespace trireme
