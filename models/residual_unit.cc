#include "models/residual_unit.h"

namespace trireme {

ResidualUnit::ResidualUnit(std::string name, const ResidualUnitConfig& config)
    : ConvNormBlock(std::move(name)) {
  const std::int64_t in = config.channels, width = config.width, out = config.outputs();
  const ConvGeometry look{.stride = config.stride, .padding = 1}, same{.stride = 1, .padding = 1};
  if (config.bottleneck) {
    convs_.push_back(declare_conv_norm({.conv = "conv1", .norm = "bn1", .channels = in, .outputs = width}));
    convs_.push_back(declare_conv_norm({.conv = "conv2",
                                        .norm = "bn2",
                                        .channels = width,
                                        .outputs = width,
                                        .kernel = 3,
                                        .geometry = look}));
    convs_.push_back(declare_conv_norm({.conv = "conv3", .norm = "bn3", .channels = width, .outputs = out}));
  } else {
    convs_.push_back(declare_conv_norm(
        {.conv = "conv1", .norm = "bn1", .channels = in, .outputs = width, .kernel = 3, .geometry = look}));
    convs_.push_back(declare_conv_norm(
        {.conv = "conv2", .norm = "bn2", .channels = width, .outputs = out, .kernel = 3, .geometry = same}));
  }
  if (config.stride == 1 && in == out) return;
  shortcut_ = declare_conv_norm({.conv = "downsample.0",
                                 .norm = "downsample.1",
                                 .channels = in,
                                 .outputs = out,
                                 .geometry = {.stride = config.stride}});
}

Activations ResidualUnit::forward(Context& ctx, const Activations& input, const Batch&) const {
  const Tensor& x = input.at(0);
  const Tensor residual = shortcut_ ? (*shortcut_)(ctx, x, Rectify::kNo) : x;
  Tensor h = x;
  for (std::size_t i = 0; i + 1 < convs_.size(); ++i) h = convs_[i](ctx, h, Rectify::kYes);
  return {convs_.back()(ctx, h, Rectify::kYes, residual)};
}

}  // namespace trireme
