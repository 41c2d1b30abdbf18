// The predicted class of every sample of an evaluation, and the confusion matrix that follows from them.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace trireme {

/// A run's file with the picture of its last evaluation, for at most this many classes: a page embeds it.
inline constexpr const char* kConfusionPicture = "confusion.svg";
inline constexpr int kMostPicturedClasses = 200;

struct ClassPrediction {
  std::int64_t target_index = 0;  // sample * targets per sample + target within the sample
  std::int32_t target = 0, predicted = 0;
  float probability = 0;  // softmax of the predicted class
};

struct ConfusionMatrix {
  std::int64_t num_classes = 0;
  std::vector<std::int64_t> counts;  // [target, predicted]

  ConfusionMatrix(std::span<const ClassPrediction> predictions, std::int64_t num_classes);
  std::int64_t at(std::int64_t target, std::int64_t predicted) const {
    return counts[static_cast<std::size_t>(target * num_classes + predicted)];
  }
  std::int64_t num_targets(std::int64_t target) const;       // samples of the class
  std::int64_t num_predicted(std::int64_t predicted) const;  // samples predicted as the class
  /// The other class that samples of `target` are most often predicted as; -1 if none are.
  std::int64_t most_confused(std::int64_t target) const;
};

}  // namespace trireme
