// A convolution without bias followed by batch norm, the unit of residual networks.
#pragma once

#include "runtime/block.h"
#include "runtime/ops/batch_norm.h"
#include "runtime/ops/conv2d.h"

namespace trireme {

struct ConvNormConfig {
  std::string conv, norm;  // names within the block: "conv1", "bn1"
  std::int64_t channels = 0, outputs = 0, kernel = 1;
  ConvGeometry geometry;
  float epsilon = 1e-5f;  // of the norm
  float momentum = 0.1f;  // of the running statistics
};

/// Parameters and statistics of both.
struct ConvNorm {
  ParamRef weight, gamma, beta;
  StatisticRef mean, variance;
  ConvGeometry geometry;
  float epsilon = 1e-5f;

  /// [B, H, W, C] -> rectify(norm(conv(x)) + residual), [B, H', W', O].
  Tensor operator()(Context& ctx, const Tensor& x, Rectify rectify, const Tensor& residual = {}) const;
};

/// A block that consists of convolution and norm pairs.
class ConvNormBlock : public Block {
 protected:
  using Block::Block;
  /// Weights are normal(0, sqrt(2 / (kernel^2 outputs))) (He et al. 2015), gamma one, beta zero. Named as
  /// torchvision does: conv + ".weight", norm + ".weight", ".bias", ".running_mean" and ".running_var".
  ConvNorm declare_conv_norm(const ConvNormConfig& config);
};

}  // namespace trireme
