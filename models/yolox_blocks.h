// The blocks of YOLOX.
//
// [Note: YOLOX feature maps] Feature maps of three strides travel as activations until their last reader: c3,
// c4 and c5 of the backbone (strides 8, 16, 32), p4 and p3 of the way to finer maps with its reduced maps l5
// and l4, n4 and n5 of the way back. Each head appends its predictions (y2, y1). The first activation is a
// block's main input and output:
//
//   dark3 {c3}  dark4 {c4, c3}  dark5 {c5, c4, c3}
//   C3_p4 {p4, c3, l5}  C3_p3 {p3, l5, l4}  C3_n3 {n4, p3, l5}  C3_n4 {n5, n4, p3}
//   head.2 {n4, p3, y2}  head.1 {p3, y2, y1}  head.0 {predictions}
#pragma once

#include <optional>

#include "models/yolox.h"
#include "models/yolox_layers.h"

namespace trireme {

/// Halves the image. The authors move squares of 2 x 2 pixels to channels, 12 in all, and convolve 3 x 3. The
/// same sum is a convolution of 6 x 6 with stride 2, whose weight [width, 3, 6, 6] holds their elements:
/// ours[o, c, 2 r + i, 2 s + j] = theirs[o, 3 (i + 2 j) + c, r, s].
class YoloxStem final : public YoloxBlock {
 public:
  explicit YoloxStem(const YoloxConfig& config);
  Activations forward(Context& ctx, const Activations& input, const Batch& batch) const override;

 private:
  YoloxConv conv_;
};

/// A stage of CSPDarknet: halves the feature map and doubles its channels. `stage` is 2 to 5; the last one
/// pools.
class YoloxStage final : public YoloxBlock {
 public:
  YoloxStage(const YoloxConfig& config, int stage);
  Activations forward(Context& ctx, const Activations& input, const Batch& batch) const override;

 private:
  YoloxConv conv_;
  std::optional<YoloxPyramidPool> pool_;
  std::optional<YoloxCspLayer> csp_;  // always; declared after the pool
  bool keeps_input_;
};

/// Joins a feature map with the next finer one: PAFPN's way from coarse to fine (Liu et al. 2018).
class YoloxFiner final : public YoloxBlock {
 public:
  /// `channels`: of the coarse map; the finer one has half as many.
  YoloxFiner(const YoloxConfig& config, std::string name, const std::string& conv, std::int64_t channels);
  Activations forward(Context& ctx, const Activations& input, const Batch& batch) const override;

 private:
  YoloxConv conv_;
  YoloxCspLayer csp_;
};

/// Joins a feature map with the next coarser one: PAFPN's way back.
class YoloxCoarser final : public YoloxBlock {
 public:
  /// `channels`: of the fine map and of the reduced coarse one; the result has twice as many.
  YoloxCoarser(const YoloxConfig& config, std::string name, const std::string& conv, std::int64_t channels);
  Activations forward(Context& ctx, const Activations& input, const Batch& batch) const override;

 private:
  YoloxConv conv_;
  YoloxCspLayer csp_;
};

/// The decoupled head of one scale: classes on one branch, box and objectness on the other. The head of level
/// 0, the finest, is the last and joins all predictions.
class YoloxHead final : public YoloxBlock {
 public:
  YoloxHead(const YoloxConfig& config, int level);
  Activations forward(Context& ctx, const Activations& input, const Batch& batch) const override;

 private:
  struct Prediction {
    ParamRef weight, bias;
  };
  Prediction declare_prediction(const std::string& name, std::int64_t outputs, float bias);

  YoloxConv stem_;
  std::vector<YoloxConv> class_convs_, box_convs_;
  Prediction classes_, box_, objectness_;
  std::int64_t channels_;
  bool is_last_;
};

}  // namespace trireme
