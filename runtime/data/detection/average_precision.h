// COCO's average precision and recall of detections.
//
// [Note: average precision] The definitions follow pycocotools' COCOeval for boxes, including the order
// of ties: https://cocodataset.org/#detection-eval. Detections of a class are sorted by score, equal scores
// by picture and then in the order given. Each takes the free object with the highest overlap, the later one
// of equals. Objects of a crowd, and objects outside of a size range, are matched last and count neither as
// found nor as missed. Precision is the maximum at the same or a higher recall, sampled at 101 recalls.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "runtime/data/detection/labelled_box.h"

namespace trireme {

/// Means over the classes that have objects; -1 if no class has any. AP and AR are means over the overlaps
/// 0.50, 0.55, ..., 0.95.
struct DetectionScores {
  double ap = -1, ap50 = -1, ap75 = -1;                 // up to 100 detections a picture and class
  double ap_small = -1, ap_medium = -1, ap_large = -1;  // areas up to 32^2, 96^2 and above
  double ar1 = -1, ar10 = -1, ar100 = -1;               // with up to 1, 10, 100 detections
  double ar_small = -1, ar_medium = -1, ar_large = -1;  // with up to 100 detections
  std::vector<double> class_ap;                         // AP by label; -1 for a class without objects
};

/// Collects pictures and computes the scores of all of them. Memory: a few bytes per detection and overlap.
class AveragePrecision {
 public:
  /// Throws Error(kInvalidInput) unless num_classes > 0.
  explicit AveragePrecision(std::int32_t num_classes);

  /// Adds a picture; the order of pictures decides between equal scores. Throws Error(kInvalidInput) for a
  /// label outside of the classes, a score that is NaN, and a box that is not finite.
  void add(std::span<const LabelledBox> objects, std::span<const Detection> detections);

  DetectionScores scores() const;

  static constexpr int kNumOverlaps = 10, kNumRanges = 4, kMaxDetections = 100;

 private:
  /// One bit per overlap threshold.
  using Overlaps = std::uint16_t;
  struct Match {
    double score = 0;
    int rank = 0;                                // among the detections of its class in its picture
    std::array<Overlaps, kNumRanges> matched{};  // found an object, which may be ignored
    std::array<Overlaps, kNumRanges> ignored{};  // does not count
  };
  struct Class {
    std::vector<Match> matches;  // by picture, then by score
    std::array<std::int64_t, kNumRanges> num_objects{};
  };
  struct Curve {
    double precision = 0;  // mean over 101 recalls
    double recall = 0;     // the highest
  };

  void add_class(Class& all, const std::vector<LabelledBox>& objects,
                 const std::vector<Detection>& detections);
  /// The curve of `sorted` detections at one overlap.
  static Curve curve(const Class& all, std::span<const Match* const> sorted, std::size_t range, int overlap);

  std::vector<Class> classes_;
};

}  // namespace trireme
