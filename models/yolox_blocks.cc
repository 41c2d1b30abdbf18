#include "models/yolox_blocks.h"

#include <utility>

#include "runtime/base/error.h"
#include "runtime/ops/concat.h"
#include "runtime/ops/reshape.h"
#include "runtime/ops/upsample.h"

namespace trireme {
namespace {

/// Channels of the feature map of stride 2^stage.
std::int64_t stage_channels(const YoloxConfig& config, int stage) {
  return config.width << (stage - 1);
}

// -log((1 - p) / p) for p = 0.01: nearly all anchors are background, whose loss would dwarf all else at first
// (Lin et al. 2017, section 4.1).
constexpr float kRareLogit = -4.59511985f;

}  // namespace

YoloxStem::YoloxStem(const YoloxConfig& config)
    : YoloxBlock("stem", "backbone.backbone.stem"),
      conv_(declare_conv("conv", {.channels = 3, .outputs = config.width, .kernel = 6, .stride = 2})) {}

Activations YoloxStem::forward(Context& ctx, const Activations&, const Batch& batch) const {
  const Shape& images = batch.inputs.shape();
  TRIREME_CHECK(images.rank() == 4 && images[3] == 3, "yolox: inputs {} are not images [B, H, W, 3]",
                images.to_string());
  yolox_anchors(images[1], images[2]);  // checks the sides
  return {conv_(ctx, batch.inputs)};
}

YoloxStage::YoloxStage(const YoloxConfig& config, int stage)
    : YoloxBlock(fmt::format("dark{}", stage), fmt::format("backbone.backbone.dark{}", stage)),
      keeps_input_(stage >= 4) {
  const std::int64_t channels = stage_channels(config, stage);
  const bool is_last = stage == 5;
  conv_ = declare_conv("0", {.channels = channels / 2,
                             .outputs = channels,
                             .kernel = 3,
                             .stride = 2,
                             .separable = config.separable});
  if (is_last) pool_.emplace(*this, "1", channels);
  csp_.emplace(*this, is_last ? "2" : "1",
               YoloxCspLayer::Config{.channels = channels,
                                     .outputs = channels,
                                     .layers = stage == 3 || stage == 4 ? 3 * config.layers : config.layers,
                                     .residual = !is_last,
                                     .separable = config.separable});
}

Activations YoloxStage::forward(Context& ctx, const Activations& input, const Batch&) const {
  Tensor x = conv_(ctx, input.at(0));
  if (pool_) x = (*pool_)(ctx, x);
  Activations output{(*csp_)(ctx, x)};
  if (keeps_input_) output.insert(output.end(), input.begin(), input.end());
  return output;
}

YoloxFiner::YoloxFiner(const YoloxConfig& config, std::string name, const std::string& conv,
                       std::int64_t channels)
    : YoloxBlock(name, "backbone"),
      conv_(declare_conv(conv, {.channels = channels, .outputs = channels / 2})),
      csp_(*this, name,
           {.channels = channels,
            .outputs = channels / 2,
            .layers = config.layers,
            .residual = false,
            .separable = config.separable}) {}

// {coarse, fine, others...} -> {joined, others..., reduced coarse}
Activations YoloxFiner::forward(Context& ctx, const Activations& input, const Batch&) const {
  const Tensor reduced = conv_(ctx, input.at(0));
  const Tensor joined = ops::concat_channels(ctx, ops::upsample_nearest(ctx, reduced), input.at(1));
  Activations output{csp_(ctx, joined)};
  output.insert(output.end(), input.begin() + 2, input.end());
  output.push_back(reduced);
  return output;
}

YoloxCoarser::YoloxCoarser(const YoloxConfig& config, std::string name, const std::string& conv,
                           std::int64_t channels)
    : YoloxBlock(name, "backbone"),
      conv_(declare_conv(conv, {.channels = channels,
                                .outputs = channels,
                                .kernel = 3,
                                .stride = 2,
                                .separable = config.separable})),
      csp_(*this, name,
           {.channels = 2 * channels,
            .outputs = 2 * channels,
            .layers = config.layers,
            .residual = false,
            .separable = config.separable}) {}

// {fine, others..., reduced coarse} -> {joined, fine, others...}
Activations YoloxCoarser::forward(Context& ctx, const Activations& input, const Batch&) const {
  const Tensor halved = conv_(ctx, input.at(0));
  Activations output{csp_(ctx, ops::concat_channels(ctx, halved, input.back()))};
  output.insert(output.end(), input.begin(), input.end() - 1);
  return output;
}

YoloxHead::YoloxHead(const YoloxConfig& config, int level)
    : YoloxBlock(fmt::format("head.{}", level), "head"), channels_(4 * config.width), is_last_(level == 0) {
  stem_ = declare_conv(fmt::format("stems.{}", level),
                       {.channels = stage_channels(config, level + 3), .outputs = channels_});
  const YoloxConvConfig inner{
      .channels = channels_, .outputs = channels_, .kernel = 3, .separable = config.separable};
  for (int i = 0; i < 2; ++i) {
    class_convs_.push_back(declare_conv(fmt::format("cls_convs.{}.{}", level, i), inner));
    box_convs_.push_back(declare_conv(fmt::format("reg_convs.{}.{}", level, i), inner));
  }
  classes_ = declare_prediction(fmt::format("cls_preds.{}", level), config.classes, kRareLogit);
  box_ = declare_prediction(fmt::format("reg_preds.{}", level), 4, 0.0f);
  objectness_ = declare_prediction(fmt::format("obj_preds.{}", level), 1, kRareLogit);
}

YoloxHead::Prediction YoloxHead::declare_prediction(const std::string& name, std::int64_t outputs,
                                                    float bias) {
  return {
      .weight = declare({.name = name + ".weight",
                         .shape = {outputs, channels_, 1, 1},
                         .init = Initializer::normal(0.01f)}),
      .bias = declare(
          {.name = name + ".bias", .shape = {outputs}, .init = Initializer::constant(bias), .decay = false})};
}

// {map, maps..., predictions...} -> {maps..., predictions..., prediction}
Activations YoloxHead::forward(Context& ctx, const Activations& input, const Batch&) const {
  const Tensor x = stem_(ctx, input.at(0));
  const auto predict = [&](const Tensor& h, const Prediction& p) {
    return ops::conv2d(ctx, h, p.weight, {.bias = p.bias, .geometry = {}});
  };
  const Tensor of_class = class_convs_[1](ctx, class_convs_[0](ctx, x));
  const Tensor of_box = box_convs_[1](ctx, box_convs_[0](ctx, x));
  const Tensor box = ops::concat_channels(ctx, predict(of_box, box_), predict(of_box, objectness_));
  const Tensor rows = ops::concat_channels(ctx, box, predict(of_class, classes_));
  const std::int64_t images = rows.shape()[0], width = rows.shape()[3];
  const Tensor flat = ops::reshape(ctx, rows, {images, rows.num_elems() / images});
  if (!is_last_) {
    Activations output(input.begin() + 1, input.end());
    output.push_back(flat);
    return output;
  }
  // As [B, pixels * width], rows of all maps can be joined along the last dim.
  Tensor all = flat;
  for (std::size_t i = input.size() - 1; i > 0; --i) all = ops::concat_channels(ctx, all, input[i]);
  return {ops::reshape(ctx, all, {images, all.shape()[1] / width, width})};
}

}  // namespace trireme
