// The layers of YOLOX's blocks. All convolutions but the predictions have a batch norm and SiLU.
#pragma once

#include <string>
#include <vector>

#include "models/conv_norm.h"

namespace trireme {

/// One convolution with norm and SiLU, or two if it is separable.
struct YoloxConv {
  std::vector<ConvNorm> convs;

  /// [B, H, W, C] -> [B, H', W', O]
  Tensor operator()(Context& ctx, const Tensor& x) const;
};

struct YoloxConvConfig {
  std::int64_t channels = 0, outputs = 0, kernel = 1, stride = 1;
  bool separable = false;  // depthwise with `kernel` and `stride`, then 1 x 1
};

class YoloxBlock : public ConvNormBlock {
 public:
  using ConvNormBlock::ConvNormBlock;
  /// Blocks of two scales may have parameters of one shape, and work on feature maps of different sizes.
  std::string variant() const override { return name(); }

  // For the constructors of layers. The padding is (kernel - 1) / 2: a stride of 2 halves even sides.
  YoloxConv declare_conv(const std::string& name, const YoloxConvConfig& config);
};

/// Cross-stage partial layer (Wang et al. 2019): half of the channels pass bottlenecks, half go past them.
class YoloxCspLayer {
 public:
  struct Config {
    std::int64_t channels = 0, outputs = 0;
    std::int64_t layers = 1;
    bool residual = true;  // bottlenecks add their input
    bool separable = false;
  };
  YoloxCspLayer(YoloxBlock& block, const std::string& name, const Config& config);
  /// [B, H, W, channels] -> [B, H, W, outputs]
  Tensor operator()(Context& ctx, const Tensor& x) const;

 private:
  struct Bottleneck {
    YoloxConv conv1, conv2;
  };
  YoloxConv conv1_, conv2_, conv3_;
  std::vector<Bottleneck> bottlenecks_;
  bool residual_;
};

/// Spatial pyramid pooling (He et al. 2014): max pools of 5, 9 and 13 pixels beside the input.
class YoloxPyramidPool {
 public:
  YoloxPyramidPool(YoloxBlock& block, const std::string& name, std::int64_t channels);
  /// [B, H, W, channels] -> the same shape
  Tensor operator()(Context& ctx, const Tensor& x) const;

 private:
  YoloxConv conv1_, conv2_;
};

}  // namespace trireme
