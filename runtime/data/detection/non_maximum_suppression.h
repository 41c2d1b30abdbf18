// Removes detections that overlap a better one of their class.
#pragma once

#include <vector>

#include "runtime/data/detection/labelled_box.h"

namespace trireme {

struct SuppressionOptions {
  double min_score = 0;       // detections with a lower score, or NaN, are removed first
  double max_overlap = 0.65;  // intersection over union with a kept detection of the same class
  int max_detections = 100;   // the best ones of all classes are kept
};

/// The remaining detections of one picture, from the highest score to the lowest. Equal scores keep the order
/// of the input, so the result depends on the input alone.
std::vector<Detection> suppress_non_maxima(std::vector<Detection> detections,
                                           const SuppressionOptions& options);

}  // namespace trireme
