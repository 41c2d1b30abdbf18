// Arguments of the op of object detectors. Contracts: see [Note: kernel contracts] in backend.h.
//
// [Note: SimOTA] The assignment of anchors to objects (Ge et al. 2021, section 2.1), for one picture. All of
// it is computed in fp64 from the predictions. Costs and overlaps are then rounded to fp32, so that equal
// costs are equal on every machine; equal costs are ordered by anchor, and then by object.
//  1. Anchors are candidates if their center is inside the box of an object, or less than 2.5 strides from
//  its
//     center in both directions.
//  2. k of an object: its min(10, candidates) largest overlaps (IoU) with predicted boxes, added and rounded
//     down, at least 1.
//  3. cost(object, anchor) = sum over classes of the binary cross-entropy of sqrt(p(class) p(object)), with
//     terms of at most 100, + 3 (-log(IoU + 1e-8)) + 1e5 if the center does not fulfil both conditions of 1.
//  4. An object takes the k candidates of the lowest cost. An anchor that several objects take goes to the
//     object with the lowest cost of all objects.
// An object without candidates gets no anchor.
#pragma once

#include <array>
#include <cstdint>

#include "kernels/op_table.h"

namespace trireme {

/// The pixels of a picture's three feature maps, ordered by stride, then as pixels of their map.
struct AnchorGrid {
  std::int64_t height = 0, width = 0;  // of the picture: multiples of the strides
  std::array<std::int64_t, 3> strides = {8, 16, 32};
};

/// Numbers of a row of DetectionLossArgs::parts.
inline constexpr std::int64_t kNumDetectionParts = 5;

/// Anchors become foreground by SimOTA. With g the object of a foreground anchor, u its IoU with the
/// predicted box, and w = l1_weights[b], the parts of a picture are
///   parts[b, 0] = 5 sum over foreground of 1 - u^2
///   parts[b, 1] = sum over all anchors of the binary cross-entropy of the objectness, with 1 for foreground
///   parts[b, 2] = sum over foreground and classes of the binary cross-entropy, with u for the class of g
///   parts[b, 3] = w sum over foreground of |x - x*| + |y - y*| + |log_width - ...| + |log_height - ...|
/// with the numbers that predict g's box exactly: (cx / stride - x of the pixel, ..., log(width / stride +
/// 1e-8), ...). In all of them u is a constant, but not in the first. Sums are in fp64, in the order of
/// anchors. loss = inv_num_targets * sum of parts, in order of pictures; count = number of foreground
/// anchors. A row with a NaN makes the second part NaN. With write_gradient, predictions become
/// gradient_scale * d loss / d predictions in place; the scale is applied before rounding to the dtype of the
/// predictions.
struct DetectionLossArgs {
  static constexpr const char* kName = "detection_loss";
  TensorView predictions;        // [B, A, 5 + C]: x, y, log width, log height, objectness, classes (logits)
  ConstTensorView targets;       // [B, M, 5] fp32: class, center x, center y, width, height; class < 0: none
  ConstTensorView l1_weights;    // [B] fp32, or undefined: 0
  TensorView objects;            // [B, A] int32: the row of targets, or -1
  TensorView parts;              // [B, kNumDetectionParts] fp32
  TensorView loss, count;        // [] fp32
  AnchorGrid grid;               // A is the number of its pixels
  float inv_num_targets = 1.0f;  // usually 1 / (pictures of the global batch)
  ConstTensorView gradient_scale;  // [] fp32, or undefined: 1
  bool write_gradient = false;
};
template <class Visit>
void visit_views(DetectionLossArgs& args, Visit visit) {
  visit(args.predictions, args.write_gradient ? ViewUse::kUpdate : ViewUse::kRead);
  visit_each<ViewUse::kRead>(visit, args.targets, args.l1_weights, args.gradient_scale);
  visit_each<ViewUse::kWrite>(visit, args.objects, args.parts, args.loss, args.count);
}

/// The ops of this file.
using DetectionOps = OpList<DetectionLossArgs>;

}  // namespace trireme
