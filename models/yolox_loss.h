// The loss of YOLOX (Ge et al. 2021, arXiv 2107.08430) as the last block, and detections from predictions.
//
// [Note: targets of a detector] Batch::targets are fp32 [B, M, 5]: class, center x, center y, width and
// height, in pixels of the network's input. Rows without an object have the class -1; they may be anywhere.
// Batch::target_weights are fp32 [B], the weight of each sample's L1 term: 0 while pictures are mixed, 1 in
// the last phase. Undefined: 0. A source gives them in all batches or in none, so that a recorded step keeps
// its tensors. num_targets of a step or evaluation is the number of its pictures, as
// Dataset::num_train_targets() returns it by default; the division by foreground anchors is the engine's, see
// [Note: counted losses] in runtime/block.h.
//
// Without targets the block returns the raw predictions that it receives, in the dtype of the mode:
// Engine::infer(), and the LogitsObserver of Engine::evaluate(), get [B, yolox_anchors(H, W), 5 + classes].
// yolox_detections() turns the rows of a picture into detections. An evaluation with targets computes
// the training loss with the running statistics of norms.
#pragma once

#include <span>
#include <vector>

#include "models/yolox.h"
#include "runtime/data/detection/labelled_box.h"

namespace trireme {

/// Weighted parts of the loss, each a sum over the batch, divided by the number of foreground anchors of the
/// global batch (at least 1):
///   5 (1 - IoU^2) over foreground anchors, binary cross-entropy of the objectness over all anchors, binary
///   cross-entropy of the classes over foreground anchors with the IoU as the target of the object's class,
///   and the weight of the sample times the L1 distance of the four raw numbers over foreground anchors.
/// The assignment of anchors to objects is SimOTA: see DetectionLossArgs.
class YoloxLoss final : public Block {
 public:
  YoloxLoss() : Block("loss") {}
  /// Predictions [B, A, 5 + classes] -> {loss, number of foreground anchors}, or the predictions.
  Activations forward(Context& ctx, const Activations& input, const Batch& batch) const override;
  bool counts_loss_terms() const override { return true; }
};

/// build_yolox() with the loss behind it: for training, evaluation and detection.
BlockList build_yolox_detector(const YoloxConfig& config);

struct YoloxPicture {
  std::int64_t height = 0, width = 0;  // of the network's input
  std::int64_t classes = 0;
};

/// The detections of one picture with a score of at least `min_score`, one for each anchor, in the order of
/// anchors: the class with the largest probability (the first of equals), and as its score that probability
/// times the objectness. Boxes are in pixels of the network's input. `rows` are raw predictions [A, 5 +
/// classes]. Rows with a box or score that is not finite are left out.
std::vector<Detection> yolox_detections(std::span<const float> rows, const YoloxPicture& picture,
                                        double min_score);

}  // namespace trireme
