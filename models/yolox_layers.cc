#include "models/yolox_layers.h"

#include "runtime/ops/activation.h"
#include "runtime/ops/add.h"
#include "runtime/ops/concat.h"
#include "runtime/ops/pool.h"

namespace trireme {

Tensor YoloxConv::operator()(Context& ctx, const Tensor& x) const {
  Tensor y = x;
  for (const ConvNorm& conv : convs) {
    y = ops::activation(ctx, conv(ctx, y, Rectify::kNo), Activation::kSilu);
  }
  return y;
}

YoloxConv YoloxBlock::declare_conv(const std::string& name, const YoloxConvConfig& config) {
  const auto declare_one = [&](const std::string& own, const YoloxConvConfig& c, std::int64_t groups) {
    const std::int64_t padding = (c.kernel - 1) / 2;
    return declare_conv_norm({.conv = own + ".conv",
                              .norm = own + ".bn",
                              .channels = c.channels,
                              .outputs = c.outputs,
                              .kernel = c.kernel,
                              .geometry = {.stride = c.stride, .padding = padding, .groups = groups},
                              .epsilon = 1e-3f,
                              .momentum = 0.03f});
  };
  YoloxConv conv;
  if (config.separable) {
    YoloxConvConfig depthwise = config;
    depthwise.outputs = config.channels;
    conv.convs.push_back(declare_one(name + ".dconv", depthwise, config.channels));
    conv.convs.push_back(
        declare_one(name + ".pconv", {.channels = config.channels, .outputs = config.outputs}, 1));
  } else {
    conv.convs.push_back(declare_one(name, config, 1));
  }
  return conv;
}

YoloxCspLayer::YoloxCspLayer(YoloxBlock& block, const std::string& name, const Config& config)
    : residual_(config.residual) {
  const std::int64_t half = config.outputs / 2;
  conv1_ = block.declare_conv(name + ".conv1", {.channels = config.channels, .outputs = half});
  conv2_ = block.declare_conv(name + ".conv2", {.channels = config.channels, .outputs = half});
  conv3_ = block.declare_conv(name + ".conv3", {.channels = 2 * half, .outputs = config.outputs});
  for (std::int64_t i = 0; i < config.layers; ++i) {
    const std::string own = fmt::format("{}.m.{}", name, i);
    Bottleneck bottleneck;
    bottleneck.conv1 = block.declare_conv(own + ".conv1", {.channels = half, .outputs = half});
    bottleneck.conv2 = block.declare_conv(
        own + ".conv2", {.channels = half, .outputs = half, .kernel = 3, .separable = config.separable});
    bottlenecks_.push_back(std::move(bottleneck));
  }
}

Tensor YoloxCspLayer::operator()(Context& ctx, const Tensor& x) const {
  Tensor h = conv1_(ctx, x);
  for (const Bottleneck& bottleneck : bottlenecks_) {
    const Tensor y = bottleneck.conv2(ctx, bottleneck.conv1(ctx, h));
    h = residual_ ? ops::add(ctx, y, h) : y;
  }
  return conv3_(ctx, ops::concat_channels(ctx, h, conv2_(ctx, x)));
}

YoloxPyramidPool::YoloxPyramidPool(YoloxBlock& block, const std::string& name, std::int64_t channels)
    : conv1_(block.declare_conv(name + ".conv1", {.channels = channels, .outputs = channels / 2})),
      conv2_(block.declare_conv(name + ".conv2", {.channels = 2 * channels, .outputs = channels})) {}

Tensor YoloxPyramidPool::operator()(Context& ctx, const Tensor& x) const {
  const Tensor h = conv1_(ctx, x);
  Tensor all = h;
  for (const std::int64_t size : {5, 9, 13}) {
    const Tensor pooled =
        ops::max_pool(ctx, h, {.height = size, .width = size, .stride = 1, .padding = size / 2});
    all = ops::concat_channels(ctx, all, pooled);
  }
  return conv2_(ctx, all);
}

}  // namespace trireme
