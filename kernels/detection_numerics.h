// The arithmetic of DetectionLossArgs for one anchor, shared by the backends: see [Note: SimOTA].
#pragma once

#include <cmath>
#include <cstdint>

#include "kernels/backend_detection_ops.h"

#ifdef __CUDACC__
#define TRIREME_EVERYWHERE __host__ __device__
#else
#define TRIREME_EVERYWHERE
#endif

namespace trireme::detection {

inline constexpr int kMostOverlaps = 10;  // of an object, for the number of its anchors
inline constexpr double kBoxWeight = 5.0, kOverlapCost = 3.0, kOutsideCost = 1e5, kCenterRadius = 2.5;

struct Anchor {
  double x, y, stride;  // pixel of its map
};

TRIREME_EVERYWHERE inline Anchor anchor_at(const AnchorGrid& grid, std::int64_t index) {
  int level = 0;
  for (; level < 2; ++level) {
    const std::int64_t stride = grid.strides[static_cast<std::size_t>(level)];
    const std::int64_t pixels = (grid.height / stride) * (grid.width / stride);
    if (index < pixels) break;
    index -= pixels;
  }
  const std::int64_t stride = grid.strides[static_cast<std::size_t>(level)], columns = grid.width / stride;
  return {static_cast<double>(index % columns), static_cast<double>(index / columns),
          static_cast<double>(stride)};
}

struct CenterBox {
  double x, y, width, height;
};

/// `row`: a row of targets, [5].
TRIREME_EVERYWHERE inline CenterBox object_box(const float* row) {
  return {row[1], row[2], row[3], row[4]};
}

/// The box of a prediction, from its first four numbers.
TRIREME_EVERYWHERE inline CenterBox predicted_box(const Anchor& anchor, const float* numbers) {
  return {(numbers[0] + anchor.x) * anchor.stride, (numbers[1] + anchor.y) * anchor.stride,
          exp(static_cast<double>(numbers[2])) * anchor.stride,
          exp(static_cast<double>(numbers[3])) * anchor.stride};
}

/// The place of an anchor's center: inside the box, and near the center of the box.
struct Position {
  bool in_box, near_center;
};

TRIREME_EVERYWHERE inline Position position(const Anchor& anchor, const CenterBox& box) {
  const double dx = fabs((anchor.x + 0.5) * anchor.stride - box.x);
  const double dy = fabs((anchor.y + 0.5) * anchor.stride - box.y);
  const double radius = kCenterRadius * anchor.stride;
  return {2 * dx < box.width && 2 * dy < box.height, dx < radius && dy < radius};
}

/// Overlap of two intervals given by center and size; `a` is the predicted one.
struct Interval {
  double length;            // of the overlap; 0: none
  double d_center, d_size;  // derivatives of the length by center and size of `a`; halved at a tie
};

TRIREME_EVERYWHERE inline Interval overlap(double a_center, double a_size, double b_center, double b_size) {
  const double a_low = a_center - a_size / 2, a_high = a_center + a_size / 2;
  const double b_low = b_center - b_size / 2, b_high = b_center + b_size / 2;
  const double length = (a_high < b_high ? a_high : b_high) - (a_low > b_low ? a_low : b_low);
  if (!(length > 0)) return {0, 0, 0};
  const double high = a_high < b_high ? 1 : a_high == b_high ? 0.5 : 0;
  const double low = a_low > b_low ? 1 : a_low == b_low ? 0.5 : 0;
  return {length, high - low, (high + low) / 2};
}

/// Intersection over union, with its derivatives by the predicted box.
struct Overlap {
  double value;
  CenterBox derivative;
};

TRIREME_EVERYWHERE inline Overlap overlap(const CenterBox& predicted, const CenterBox& object) {
  const Interval x = overlap(predicted.x, predicted.width, object.x, object.width);
  const Interval y = overlap(predicted.y, predicted.height, object.y, object.height);
  const double inter = x.length * y.length;
  if (!(inter > 0)) return {0, {0, 0, 0, 0}};
  const double both = predicted.width * predicted.height + object.width * object.height;
  const double all = both - inter;
  // d (inter / all) = (both d inter - inter d both) / all^2
  const double by_inter = both / (all * all), by_both = -inter / (all * all);
  return {inter / all,
          {by_inter * x.d_center * y.length, by_inter * y.d_center * x.length,
           by_inter * x.d_size * y.length + by_both * predicted.height,
           by_inter * y.d_size * x.length + by_both * predicted.width}};
}

/// log(1 + e^x)
TRIREME_EVERYWHERE inline double softplus(double x) {
  return (x > 0 ? x : 0.0) + log1p(exp(-fabs(x)));
}

TRIREME_EVERYWHERE inline double sigmoid(double x) {
  return 1 / (1 + exp(-x));
}

/// Cross-entropies of the probability sqrt(p(class) p(object)) with the targets 1 and 0.
struct ClassCost {
  double present, absent;
};

TRIREME_EVERYWHERE inline ClassCost class_cost(double object_logit, double class_logit) {
  constexpr double kLargest = 100;
  const double present = (softplus(-object_logit) + softplus(-class_logit)) / 2;
  const double absent = -log(-expm1(-present));
  return {present < kLargest ? present : kLargest, absent < kLargest ? absent : kLargest};
}

/// An anchor as an object sees it.
struct Candidate {
  double cost;    // rounded; kOutsideCost is added exactly
  float overlap;  // rounded
};

/// `background`: the sum of ClassCost::absent over all classes. `box`: predicted_box().
TRIREME_EVERYWHERE inline Candidate candidate(const Anchor& anchor, const CenterBox& box,
                                              const CenterBox& object, double background,
                                              const ClassCost& own_class) {
  const Position at = position(anchor, object);
  const double u = overlap(box, object).value;
  const double cost = background - own_class.absent + own_class.present - kOverlapCost * log(u + 1e-8);
  const double outside = at.in_box && at.near_center ? 0.0 : kOutsideCost;
  return {static_cast<double>(static_cast<float>(cost)) + outside, static_cast<float>(u)};
}

/// The largest overlaps and the lowest costs seen, of at most kMostOverlaps anchors.
struct BestAnchors {
  float overlaps[kMostOverlaps];
  double costs[kMostOverlaps];
  std::int32_t anchors[kMostOverlaps];  // of the costs
  int count = 0;                        // of both

  /// True if (cost, anchor) comes before the entry `i`.
  TRIREME_EVERYWHERE bool precedes(double cost, std::int32_t anchor, int i) const {
    return cost < costs[i] || (cost == costs[i] && anchor < anchors[i]);
  }
  TRIREME_EVERYWHERE void add(const Candidate& candidate, std::int32_t anchor) {
    const bool grows = count < kMostOverlaps;
    const int last = grows ? count : kMostOverlaps - 1;
    if (grows || candidate.overlap > overlaps[last]) {
      int i = last;
      for (; i > 0 && candidate.overlap > overlaps[i - 1]; --i) overlaps[i] = overlaps[i - 1];
      overlaps[i] = candidate.overlap;
    }
    if (grows || precedes(candidate.cost, anchor, last)) {
      int i = last;
      for (; i > 0 && precedes(candidate.cost, anchor, i - 1); --i) {
        costs[i] = costs[i - 1];
        anchors[i] = anchors[i - 1];
      }
      costs[i] = candidate.cost;
      anchors[i] = anchor;
    }
    if (grows) ++count;
  }
  TRIREME_EVERYWHERE int num_taken() const {
    double sum = 0;
    for (int i = 0; i < count; ++i) sum += static_cast<double>(overlaps[i]);
    const int k = static_cast<int>(sum);
    return count == 0 ? 0 : k < 1 ? 1 : k;
  }
};

/// The loss of a foreground anchor's four numbers, with their gradient.
struct BoxLoss {
  double overlap;  // the IoU
  double box, l1;  // parts 0 and 3
  double box_gradient[4] = {}, l1_gradient[4] = {};
};

TRIREME_EVERYWHERE inline BoxLoss box_loss(const Anchor& anchor, const float* numbers,
                                           const CenterBox& object, double l1_weight) {
  const CenterBox box = predicted_box(anchor, numbers);
  const Overlap u = overlap(box, object);
  BoxLoss loss{u.value, kBoxWeight * (1 - u.value * u.value), 0};
  const double factor = -2 * kBoxWeight * u.value;
  if (u.value > 0) {
    loss.box_gradient[0] = factor * u.derivative.x * anchor.stride;
    loss.box_gradient[1] = factor * u.derivative.y * anchor.stride;
    loss.box_gradient[2] = factor * u.derivative.width * box.width;
    loss.box_gradient[3] = factor * u.derivative.height * box.height;
  }
  if (l1_weight == 0) return loss;
  const double exact[4] = {object.x / anchor.stride - anchor.x, object.y / anchor.stride - anchor.y,
                           log(object.width / anchor.stride + 1e-8),
                           log(object.height / anchor.stride + 1e-8)};
  for (int i = 0; i < 4; ++i) {
    const double difference = numbers[i] - exact[i];
    loss.l1 += l1_weight * fabs(difference);
    loss.l1_gradient[i] = difference > 0 ? l1_weight : difference < 0 ? -l1_weight : 0;
  }
  return loss;
}

}  // namespace trireme::detection
