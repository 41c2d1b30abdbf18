#include "models/unet_layers.h"

#include <cmath>

#include "runtime/ops/activation.h"
#include "runtime/ops/add.h"
#include "runtime/ops/attention.h"
#include "runtime/ops/cross_attention.h"
#include "runtime/ops/dropout.h"
#include "runtime/ops/group_norm.h"
#include "runtime/ops/layer_norm.h"
#include "runtime/ops/linear.h"
#include "runtime/ops/mul.h"
#include "runtime/ops/reshape.h"
#include "runtime/ops/shift_channels.h"

namespace trireme {
namespace {

constexpr ConvGeometry kSame{.stride = 1, .padding = 1};
constexpr float kTransformerNormEpsilon = 1e-6f;  // of the group norm before a transformer, in diffusers

Initializer uniform_for(std::int64_t fan_in) {
  return Initializer::uniform(1.0f / std::sqrt(static_cast<float>(fan_in)));
}

/// Images [B, H, W, C] as tokens [B, H W, C].
Tensor as_tokens(Context& ctx, const Tensor& x) {
  const Shape& shape = x.shape();
  return ops::reshape(ctx, x, {shape[0], shape[1] * shape[2], shape[3]});
}

Tensor normed(Context& ctx, const Tensor& x, const UnetBlock::Layer& norm) {
  return ops::layer_norm(ctx, x, norm.weight, norm.bias);
}

}  // namespace

UnetBlock::Layer UnetBlock::declare_conv(const std::string& name, std::int64_t inputs, std::int64_t outputs,
                                         std::int64_t kernel) {
  const Initializer init = uniform_for(inputs * kernel * kernel);
  return {
      .weight = declare({.name = name + ".weight", .shape = {outputs, inputs, kernel, kernel}, .init = init}),
      .bias = declare({.name = name + ".bias", .shape = {outputs}, .init = init, .decay = false})};
}

UnetBlock::Layer UnetBlock::declare_linear(const std::string& name, std::int64_t inputs, std::int64_t outputs,
                                           bool bias, const ParameterSlice& slice) {
  const Initializer init = uniform_for(inputs);
  Layer layer;
  layer.weight = declare(slice_of(
      {.name = name + ".weight", .shape = {outputs, inputs}, .init = init, .allows_fp8 = true}, slice));
  if (bias) {
    layer.bias =
        declare(slice_of({.name = name + ".bias", .shape = {outputs}, .init = init, .decay = false}, slice));
  }
  return layer;
}

UnetBlock::Layer UnetBlock::declare_norm(const std::string& name, std::int64_t width, float center) {
  return {.weight = declare({.name = name + ".weight",
                             .shape = {width},
                             .init = Initializer::ones(),
                             .decay = false,
                             .center = center}),
          .bias = declare(
              {.name = name + ".bias", .shape = {width}, .init = Initializer::zeros(), .decay = false})};
}

UnetBlock::Layer UnetBlock::declare_group_norm(const std::string& name, std::int64_t width) {
  return declare_norm(name, width, 0.0f);
}

UnetBlock::Layer UnetBlock::declare_layer_norm(const std::string& name, std::int64_t width) {
  return declare_norm(name, width, 1.0f);
}

UnetResidual::UnetResidual(UnetBlock& block, const std::string& name, const UnetConfig& config,
                           std::int64_t inputs, std::int64_t outputs)
    : norm1_(block.declare_group_norm(name + ".norm1", inputs)),
      conv1_(block.declare_conv(name + ".conv1", inputs, outputs)),
      time_(block.declare_linear(name + ".time_emb_proj", config.time_width(), outputs)),
      norm2_(block.declare_group_norm(name + ".norm2", outputs)),
      conv2_(block.declare_conv(name + ".conv2", outputs, outputs)),
      groups_(config.norm_groups),
      epsilon_(static_cast<float>(config.norm_epsilon)),
      dropout_(config.dropout) {
  if (inputs != outputs) shortcut_ = block.declare_conv(name + ".conv_shortcut", inputs, outputs, 1);
}

Tensor UnetResidual::operator()(Context& ctx, const Tensor& x, const Tensor& time) const {
  Tensor h = ops::group_norm(ctx, x, norm1_.weight, norm1_.bias, groups_, epsilon_, Activation::kSilu);
  h = ops::conv2d(ctx, h, conv1_.weight, {.bias = conv1_.bias, .geometry = kSame});
  h = ops::shift_channels(ctx, h, ops::linear(ctx, time, time_.weight, {.bias = time_.bias}));
  h = ops::group_norm(ctx, h, norm2_.weight, norm2_.bias, groups_, epsilon_, Activation::kSilu);
  if (ctx.training && dropout_ > 0.0f) h = ops::dropout(ctx, h, dropout_);
  h = ops::conv2d(ctx, h, conv2_.weight, {.bias = conv2_.bias, .geometry = kSame});
  if (!shortcut_.weight.defined()) return ops::add(ctx, x, h);
  return ops::add(ctx, ops::conv2d(ctx, x, shortcut_.weight, {.bias = shortcut_.bias, .geometry = {}}), h);
}

UnetAttention::UnetAttention(UnetBlock& block, const std::string& name, const UnetConfig& config,
                             std::int64_t width)
    : norm_(block.declare_group_norm(name + ".group_norm", width)),
      qkv_(block.declare_linear(name + ".to_qkv", width, 3 * width)),
      out_(block.declare_linear(name + ".to_out.0", width, width)),
      groups_(config.norm_groups),
      heads_(static_cast<int>(config.heads_of(width))),
      epsilon_(static_cast<float>(config.norm_epsilon)) {}

Tensor UnetAttention::operator()(Context& ctx, const Tensor& x) const {
  const Tensor tokens = as_tokens(ctx, x);
  const Tensor h =
      ops::projected_attention(ctx, ops::group_norm(ctx, tokens, norm_.weight, norm_.bias, groups_, epsilon_),
                               [qkv = qkv_](Context& inner, const Tensor& input) {
                                 return ops::linear(inner, input, qkv.weight, {.bias = qkv.bias});
                               },
                               {.num_heads = heads_, .causal = false});
  const Tensor y = ops::linear(ctx, h, out_.weight, {.bias = out_.bias, .residual = tokens});
  return ops::reshape(ctx, y, x.shape());
}

UnetTransformer::UnetTransformer(UnetBlock& block, const std::string& name, const UnetConfig& config,
                                 std::int64_t width)
    : norm_(block.declare_group_norm(name + ".norm", width)),
      groups_(config.norm_groups),
      heads_(static_cast<int>(config.heads_of(width))),
      linear_projection_(config.linear_projection) {
  const auto declare_projection = [&](const std::string& key) {
    return linear_projection_ ? block.declare_linear(name + key, width, width)
                              : block.declare_conv(name + key, width, width, 1);
  };
  const std::string inner = name + ".transformer_blocks.0.";
  in_ = declare_projection(".proj_in");
  norms_[0] = block.declare_layer_norm(inner + "norm1", width);
  qkv_ = block.declare_linear(inner + "attn1.to_qkv", width, 3 * width, /*bias=*/false);
  self_out_ = block.declare_linear(inner + "attn1.to_out.0", width, width);
  norms_[1] = block.declare_layer_norm(inner + "norm2", width);
  query_ = block.declare_linear(inner + "attn2.to_q", width, width, /*bias=*/false);
  key_ = block.declare_linear(inner + "attn2.to_k", config.condition_width, width, /*bias=*/false);
  value_ = block.declare_linear(inner + "attn2.to_v", config.condition_width, width, /*bias=*/false);
  cross_out_ = block.declare_linear(inner + "attn2.to_out.0", width, width);
  norms_[2] = block.declare_layer_norm(inner + "norm3", width);
  // The first half of one matrix is gated by the second.
  hidden_ = block.declare_linear(inner + "ff.net.0.proj", width, 8 * width, /*bias=*/true,
                                 slice_of_chunk(0, 2, CutDim::kRows));
  gate_ = block.declare_linear(inner + "ff.net.0.proj", width, 8 * width, /*bias=*/true,
                               slice_of_chunk(1, 2, CutDim::kRows));
  down_ = block.declare_linear(inner + "ff.net.2", 4 * width, width);
  out_ = declare_projection(".proj_out");
}

Tensor UnetTransformer::attend(Context& ctx, const Tensor& tokens) const {
  const Tensor h = ops::projected_attention(
      ctx, normed(ctx, tokens, norms_[0]),
      [qkv = qkv_](Context& inner, const Tensor& input) { return ops::linear(inner, input, qkv.weight); },
      {.num_heads = heads_, .causal = false});
  return ops::linear(ctx, h, self_out_.weight, {.bias = self_out_.bias, .residual = tokens});
}

Tensor UnetTransformer::attend_to(Context& ctx, const Tensor& tokens, const Tensor& condition) const {
  const Tensor query = ops::linear(ctx, normed(ctx, tokens, norms_[1]), query_.weight);
  const Tensor key = ops::linear(ctx, condition, key_.weight),
               value = ops::linear(ctx, condition, value_.weight);
  const Tensor h = ops::cross_attention(ctx, query, key, value, heads_);
  return ops::linear(ctx, h, cross_out_.weight, {.bias = cross_out_.bias, .residual = tokens});
}

Tensor UnetTransformer::feed_forward(Context& ctx, const Tensor& tokens) const {
  const Tensor h = normed(ctx, tokens, norms_[2]);
  const Tensor hidden = ops::linear(ctx, h, hidden_.weight, {.bias = hidden_.bias});
  const Tensor gate =
      ops::linear(ctx, h, gate_.weight, {.bias = gate_.bias, .activation = Activation::kGelu});
  return ops::linear(ctx, ops::mul(ctx, hidden, gate), down_.weight,
                     {.bias = down_.bias, .residual = tokens});
}

Tensor UnetTransformer::operator()(Context& ctx, const Tensor& x, const Tensor& condition) const {
  Tensor h = ops::group_norm(ctx, x, norm_.weight, norm_.bias, groups_, kTransformerNormEpsilon);
  if (linear_projection_) {
    h = ops::linear(ctx, as_tokens(ctx, h), in_.weight, {.bias = in_.bias});
  } else {
    h = as_tokens(ctx, ops::conv2d(ctx, h, in_.weight, {.bias = in_.bias, .geometry = {}}));
  }
  h = feed_forward(ctx, attend_to(ctx, attend(ctx, h), condition));
  if (linear_projection_) {
    h = ops::linear(ctx, h, out_.weight, {.bias = out_.bias, .residual = as_tokens(ctx, x)});
    return ops::reshape(ctx, h, x.shape());
  }
  h = ops::conv2d(ctx, ops::reshape(ctx, h, x.shape()), out_.weight, {.bias = out_.bias, .geometry = {}});
  return ops::add(ctx, h, x);
}

}  // namespace trireme
