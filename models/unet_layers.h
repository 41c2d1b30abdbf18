// The layers that the blocks of a UNet consist of: convolutions, group norms, a residual unit, attention over
// pixels, and a transformer with attention to a condition.
#pragma once

#include <array>
#include <string>

#include "models/unet.h"
#include "runtime/block.h"
#include "runtime/ops/conv2d.h"

namespace trireme {

/// A block that declares layers with PyTorch's names and initial values.
class UnetBlock : public Block {
 public:
  struct Layer {
    ParamRef weight, bias;
  };

 protected:
  using Block::Block;
  /// weight [outputs, inputs, kernel, kernel], and a bias.
  Layer declare_conv(const std::string& name, std::int64_t inputs, std::int64_t outputs,
                     std::int64_t kernel = 3);
  /// weight [outputs, inputs]. `fan_in` of the initial values is `inputs`.
  Layer declare_linear(const std::string& name, std::int64_t inputs, std::int64_t outputs, bool bias = true,
                       const ParameterSlice& slice = {});
  Layer declare_group_norm(const std::string& name, std::int64_t width);
  Layer declare_layer_norm(const std::string& name, std::int64_t width);

 private:
  Layer declare_norm(const std::string& name, std::int64_t width, float center);

  friend class UnetResidual;
  friend class UnetAttention;
  friend class UnetTransformer;
};

/// diffusers' ResnetBlock2D: h = conv1(silu(norm1(x))) + time; x' + conv2(dropout(silu(norm2(h)))).
class UnetResidual {
 public:
  UnetResidual() = default;
  /// Declares parameters in `block` under `name`. (`inputs` -> `outputs` channels.)
  UnetResidual(UnetBlock& block, const std::string& name, const UnetConfig& config, std::int64_t inputs,
               std::int64_t outputs);
  /// x [B, H, W, inputs], time [B, time_width] after its SiLU -> [B, H, W, outputs].
  Tensor operator()(Context& ctx, const Tensor& x, const Tensor& time) const;

 private:
  UnetBlock::Layer norm1_, conv1_, time_, norm2_, conv2_, shortcut_;
  std::int64_t groups_ = 1;
  float epsilon_ = 0.0f, dropout_ = 0.0f;
};

/// Self-attention over pixels, as in Ho et al. 2020.
class UnetAttention {
 public:
  UnetAttention() = default;
  UnetAttention(UnetBlock& block, const std::string& name, const UnetConfig& config, std::int64_t width);
  /// x [B, H, W, C] -> the same shape; adds the residual.
  Tensor operator()(Context& ctx, const Tensor& x) const;

 private:
  UnetBlock::Layer norm_, qkv_, out_;
  std::int64_t groups_ = 1;
  int heads_ = 1;
  float epsilon_ = 0.0f;
};

/// diffusers' Transformer2DModel with one block: self-attention over pixels, attention to the condition, and
/// an MLP gated by GELU (Shazeer 2020).
class UnetTransformer {
 public:
  UnetTransformer() = default;
  UnetTransformer(UnetBlock& block, const std::string& name, const UnetConfig& config, std::int64_t width);
  /// x [B, H, W, C], condition [B, L, condition_width] -> like x; adds the residual.
  Tensor operator()(Context& ctx, const Tensor& x, const Tensor& condition) const;

 private:
  Tensor attend(Context& ctx, const Tensor& tokens) const;
  Tensor attend_to(Context& ctx, const Tensor& tokens, const Tensor& condition) const;
  Tensor feed_forward(Context& ctx, const Tensor& tokens) const;

  UnetBlock::Layer norm_, in_, out_;
  std::array<UnetBlock::Layer, 3> norms_;
  UnetBlock::Layer qkv_, self_out_, query_, key_, value_, cross_out_;
  UnetBlock::Layer hidden_, gate_, down_;
  std::int64_t groups_ = 1;
  int heads_ = 1;
  bool linear_projection_ = false;
};

}  // namespace trireme
