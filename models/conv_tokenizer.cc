#include "models/conv_tokenizer.h"

#include <cmath>

#include "runtime/ops/conv2d.h"
#include "runtime/ops/dropout.h"
#include "runtime/ops/pool.h"
#include "runtime/ops/relu.h"
#include "runtime/ops/reshape.h"
#include "runtime/ops/token_positions.h"

namespace trireme {

ConvTokenizer::ConvTokenizer(const CctConfig& config) : Block("tokenizer"), dropout_(config.dropout) {
  constexpr std::int64_t kKernel = 3, kInnerChannels = 64;
  constexpr float kPositionStddev = 0.2f;
  std::int64_t channels = 3;
  for (std::int64_t i = 0; i < config.convs; ++i) {
    const std::int64_t outputs = i + 1 < config.convs ? kInnerChannels : config.hidden;
    const auto fan_in = static_cast<float>(kKernel * kKernel * channels);
    weights_.push_back(declare({.name = "conv" + std::to_string(i + 1) + ".weight",
                                .shape = {outputs, channels, kKernel, kKernel},
                                .init = Initializer::normal(std::sqrt(2.0f / fan_in))}));
    channels = outputs;
  }
  const std::int64_t side = config.side();
  positions_ = declare({.name = "positions",
                        .shape = {side * side, config.hidden},
                        .init = Initializer::normal(kPositionStddev),
                        .decay = false});
}

Activations ConvTokenizer::forward(Context& ctx, const Activations&, const Batch& batch) const {
  Tensor x = batch.inputs;
  for (const ParamRef& weight : weights_) {
    x = ops::relu(ctx, ops::conv2d(ctx, x, weight, {.geometry = {.padding = 1}}));
    x = ops::max_pool(ctx, x, {.height = 3, .width = 3, .stride = 2, .padding = 1});
  }
  const Shape image = x.shape();
  x = ops::reshape(ctx, x, {image[0], image[1] * image[2], image[3]});
  return {ops::dropout(ctx, ops::token_positions(ctx, x, {.positions = positions_}), dropout_)};
}

}  // namespace trireme
