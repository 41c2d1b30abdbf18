// Detections of an evaluation, gathered from all ranks, and COCO's scores of them.
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <vector>

#include "parallel/comm/communicator.h"
#include "runtime/block.h"
#include "runtime/data/detection/average_precision.h"
#include "runtime/data/detection/detection_set.h"

namespace trireme {

/// Scores below this do not take part in an evaluation, as in the authors' program.
inline constexpr double kMinEvaluationScore = 0.01;

/// The detections of one picture, from `rows` of raw predictions [A, 5 + classes] of its letterbox with sides
/// of `side` pixels: non-maximum suppression by class, in pixels of the picture, within the picture, the best
/// first.
std::vector<Detection> picture_detections(std::span<const float> rows, std::int64_t classes, int side,
                                          ImageSize picture, double min_score);

class DetectionResults {
 public:
  /// For the first `num_pictures` of a set.
  DetectionResults(std::shared_ptr<const DetectionSet> set, std::int64_t num_pictures);

  /// Adds the predictions [B, A, 5 + classes] of a micro-batch whose first picture is `first`. Waits for the
  /// device.
  void add(const Context& ctx, const Tensor& predictions, const Batch& batch, std::int64_t first);
  /// Collective: adds the pictures of all ranks, in the order of the set.
  void gather(Communicator& comm);

  // After gather():
  /// Does not depend on the layout.
  DetectionScores scores() const;
  /// COCO's format of results: [{"image_id", "category_id", "bbox", "score"}], with the ids of the
  /// annotations.
  nlohmann::ordered_json to_json() const;

 private:
  struct Found {
    std::int64_t picture = 0;
    Detection detection;
  };
  std::shared_ptr<const DetectionSet> set_;
  std::int64_t num_pictures_;
  std::vector<Found> found_;  // by picture, then by score
};

}  // namespace trireme
