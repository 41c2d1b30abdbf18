#include "models/patch_embedding.h"

#include <cmath>

#include "models/vit_block.h"
#include "runtime/ops/conv2d.h"
#include "runtime/ops/dropout.h"
#include "runtime/ops/reshape.h"
#include "runtime/ops/token_positions.h"

namespace trireme {

PatchEmbedding::PatchEmbedding(const VitConfig& config)
    : Block("embedding", ""), patch_(config.patch), dropout_(config.dropout) {
  const std::int64_t c = config.hidden, p = config.patch;
  if (config.pool == TokenPool::kClassToken) {
    class_token_ = declare({.name = "class_token",
                            .shape = {1, 1, c},
                            .init = Initializer::normal(kVitInitStddev),
                            .decay = false});
  }
  weight_ = declare({.name = "conv_proj.weight",
                     .shape = {c, 3, p, p},
                     .init = Initializer::normal(1.0f / std::sqrt(static_cast<float>(3 * p * p)))});
  bias_ = declare({.name = "conv_proj.bias", .shape = {c}, .init = Initializer::zeros(), .decay = false});
  positions_ = declare({.name = "encoder.pos_embedding",
                        .shape = {1, config.num_tokens(), c},
                        .init = Initializer::normal(kVitInitStddev),
                        .decay = false});
}

Activations PatchEmbedding::forward(Context& ctx, const Activations&, const Batch& batch) const {
  Tensor x = ops::conv2d(ctx, batch.inputs, weight_, {.bias = bias_, .geometry = {.stride = patch_}});
  const Shape& image = x.shape();
  x = ops::reshape(ctx, x, {image[0], image[1] * image[2], image[3]});
  x = ops::token_positions(ctx, x, {.first = class_token_, .positions = positions_});
  return {ops::dropout(ctx, x, dropout_)};
}

}  // namespace trireme
