#include "models/unet_blocks.h"

#include <utility>

#include "runtime/base/error.h"
#include "runtime/ops/activation.h"
#include "runtime/ops/add.h"
#include "runtime/ops/cast.h"
#include "runtime/ops/concat.h"
#include "runtime/ops/embedding.h"
#include "runtime/ops/group_norm.h"
#include "runtime/ops/linear.h"
#include "runtime/ops/reshape.h"
#include "runtime/ops/squared_error.h"
#include "runtime/ops/time_embedding.h"
#include "runtime/ops/upsample.h"

namespace trireme {

UnetStream::UnetStream(const Activations& activations, bool has_condition)
    : x(activations.at(0)), time(activations.at(1)) {
  const std::ptrdiff_t first_skip = has_condition ? 3 : 2;
  if (has_condition) condition = activations.at(2);
  skips.assign(activations.begin() + first_skip, activations.end());
}

Activations UnetStream::activations() const {
  Activations all{x};
  if (time.defined()) all.push_back(time);
  if (condition.defined()) all.push_back(condition);
  all.insert(all.end(), skips.begin(), skips.end());
  return all;
}

UnetInput::UnetInput(const UnetConfig& config)
    : UnetBlock("conv_in", ""),
      channels_(config.channels),
      width_(config.widths.front()),
      condition_width_(config.condition_width),
      style_(config.style) {
  conv_ = declare_conv("conv_in", channels_, width_);
  time1_ = declare_linear("time_embedding.linear_1", width_, config.time_width());
  time2_ = declare_linear("time_embedding.linear_2", config.time_width(), config.time_width());
  if (config.classes > 0) {
    classes_ = declare({.name = "class_embedding.weight",
                        .shape = {config.classes, config.time_width()},
                        .init = Initializer::normal(1.0f)});
  }
}

Tensor UnetInput::embed(Context& ctx, const Batch& batch) const {
  const bool sines_first = style_ == UnetStyle::kDdpm;
  Tensor time =
      ops::time_embedding(ctx, batch.timesteps, width_,
                          {.halves = sines_first ? TimeHalves::kSineFirst : TimeHalves::kCosineFirst,
                           .downscale_freq_shift = sines_first ? 1.0f : 0.0f});
  time = ops::linear(ctx, time, time1_.weight, {.bias = time1_.bias, .activation = Activation::kSilu});
  time = ops::linear(ctx, time, time2_.weight, {.bias = time2_.bias});
  if (classes_.defined()) {
    TRIREME_CHECK(batch.classes.defined(),
                  "unet: the network is class-conditional, the batch has no classes");
    const std::int64_t samples = batch.classes.num_elems();
    const Tensor rows = ops::embedding(ctx, batch.classes.reshape({samples, 1}), classes_);
    time = ops::add(ctx, time, ops::reshape(ctx, rows, time.shape()));
  }
  return ops::activation(ctx, time, Activation::kSilu);
}

Activations UnetInput::forward(Context& ctx, const Activations&, const Batch& batch) const {
  const Shape& images = batch.inputs.shape();
  TRIREME_CHECK(images.rank() == 4 && images[3] == channels_,
                "unet: inputs {} are not images [B, H, W, {}] of this network", images.to_string(),
                channels_);
  TRIREME_CHECK(batch.timesteps.defined(), "unet: the batch has no timesteps");
  UnetStream stream;
  stream.x = ops::conv2d(ctx, batch.inputs, conv_.weight,
                         {.bias = conv_.bias, .geometry = {.stride = 1, .padding = 1}});
  stream.time = embed(ctx, batch);
  if (condition_width_ > 0) {
    const Tensor& condition = batch.condition;
    TRIREME_CHECK(
        condition.defined() && condition.shape().rank() == 3 && condition.shape()[2] == condition_width_,
        "unet: the condition {} is not [B, L, {}] of this network",
        condition.defined() ? condition.shape().to_string() : "is missing and", condition_width_);
    stream.condition = ops::cast(ctx, condition, ctx.precision.compute_dtype());
  }
  stream.skips.push_back(stream.x);
  return stream.activations();
}

UnetUnit::UnetUnit(const Config& config, const UnetConfig& unet)
    : UnetBlock(fmt::format("{}.{}", config.prefix, config.index), config.prefix),
      config_(config),
      residual_(*this, fmt::format("resnets.{}", config.index), unet, config.inputs, config.outputs),
      is_conditional_(unet.condition_width > 0) {
  if (!config.attends) return;
  const std::string name = fmt::format("attentions.{}", config.index);
  if (is_conditional_) {
    transformer_ = UnetTransformer(*this, name, unet, config.outputs);
  } else {
    attention_ = UnetAttention(*this, name, unet, config.outputs);
  }
}

std::string UnetUnit::variant() const {
  return fmt::format("level {}", config_.level);
}

Activations UnetUnit::forward(Context& ctx, const Activations& input, const Batch&) const {
  UnetStream stream(input, config_.has_condition);
  if (config_.skip == Skip::kPop) {
    stream.x = ops::concat_channels(ctx, stream.x, stream.skips.back());
    stream.skips.pop_back();
  }
  stream.x = residual_(ctx, stream.x, stream.time);
  if (config_.attends) {
    stream.x = is_conditional_ ? transformer_(ctx, stream.x, stream.condition) : attention_(ctx, stream.x);
  }
  if (config_.skip == Skip::kPush) stream.skips.push_back(stream.x);
  if (!config_.passes_condition) stream.condition = Tensor();
  if (!config_.passes_time) stream.time = Tensor();
  return stream.activations();
}

UnetResample::UnetResample(const Config& config, UnetStyle style)
    : UnetBlock(fmt::format("{}.{}", config.prefix,
                            config.direction == Direction::kDown ? "downsamplers.0" : "upsamplers.0")),
      config_(config),
      conv_(declare_conv("conv", config.width, config.width)),
      geometry_{.stride = 1, .padding = 1} {
  if (config.direction == Direction::kUp) return;
  geometry_ = style == UnetStyle::kDdpm ? ConvGeometry{.stride = 2, .padding = 0, .padding_after = 1}
                                        : ConvGeometry{.stride = 2, .padding = 1};
}

std::string UnetResample::variant() const {
  return fmt::format("level {}", config_.level);
}

Activations UnetResample::forward(Context& ctx, const Activations& input, const Batch&) const {
  UnetStream stream(input, config_.has_condition);
  const bool down = config_.direction == Direction::kDown;
  const Shape& shape = stream.x.shape();
  TRIREME_CHECK(!down || (shape[1] % 2 == 0 && shape[2] % 2 == 0),
                "unet: an image of {} x {} cannot be halved: use images whose sides are divisible by 2 for "
                "each change of resolution",
                shape[1], shape[2]);
  const Tensor x = down ? stream.x : ops::upsample_nearest(ctx, stream.x);
  stream.x = ops::conv2d(ctx, x, conv_.weight, {.bias = conv_.bias, .geometry = geometry_});
  if (down) stream.skips.push_back(stream.x);
  return stream.activations();
}

UnetOutput::UnetOutput(const UnetConfig& config)
    : UnetBlock("conv_out", ""),
      norm_(declare_group_norm("conv_norm_out", config.widths.front())),
      conv_(declare_conv("conv_out", config.widths.front(), config.channels)),
      groups_(config.norm_groups),
      epsilon_(static_cast<float>(config.norm_epsilon)) {}

Activations UnetOutput::forward(Context& ctx, const Activations& input, const Batch& batch) const {
  const Tensor h =
      ops::group_norm(ctx, input.at(0), norm_.weight, norm_.bias, groups_, epsilon_, Activation::kSilu);
  Tensor prediction =
      ops::conv2d(ctx, h, conv_.weight, {.bias = conv_.bias, .geometry = {.stride = 1, .padding = 1}});
  if (!batch.targets.defined()) return {prediction};
  return {ops::squared_error(ctx, std::move(prediction), batch.targets, batch.target_weights,
                             batch.inv_num_targets)};
}

}  // namespace trireme
