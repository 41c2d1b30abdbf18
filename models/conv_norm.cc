#include "models/conv_norm.h"

#include <cmath>

namespace trireme {

Tensor ConvNorm::operator()(Context& ctx, const Tensor& x, Rectify rectify, const Tensor& residual) const {
  const Tensor y = ops::conv2d(ctx, x, weight, {.bias = {}, .geometry = geometry});
  return ops::batch_norm(
      ctx, y, gamma, beta,
      {.mean = mean, .variance = variance, .residual = residual, .rectify = rectify, .epsilon = epsilon});
}

ConvNorm ConvNormBlock::declare_conv_norm(const ConvNormConfig& config) {
  const auto fan_out = static_cast<float>(config.kernel * config.kernel * config.outputs);
  const Shape channels{config.outputs};
  return {
      .weight = declare(
          {.name = config.conv + ".weight",
           .shape = {config.outputs, config.channels / config.geometry.groups, config.kernel, config.kernel},
           .init = Initializer::normal(std::sqrt(2.0f / fan_out))}),
      .gamma = declare(
          {.name = config.norm + ".weight", .shape = channels, .init = Initializer::ones(), .decay = false}),
      .beta = declare(
          {.name = config.norm + ".bias", .shape = channels, .init = Initializer::zeros(), .decay = false}),
      .mean = declare_statistic(
          {.name = config.norm + ".running_mean", .shape = channels, .momentum = config.momentum}),
      .variance = declare_statistic({.name = config.norm + ".running_var",
                                     .shape = channels,
                                     .initial = 1.0f,
                                     .momentum = config.momentum}),
      .geometry = config.geometry,
      .epsilon = config.epsilon};
}

}  // namespace trireme
