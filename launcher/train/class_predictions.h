// Records the predicted class of every sample of an evaluation.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "launcher/observe/confusion_matrix.h"
#include "launcher/train/host_logits.h"
#include "parallel/comm/communicator.h"

namespace trireme {

/// The class with the largest logit and its probability; on ties the smallest number. NaN logits are ignored;
/// {0, 0} if all are NaN.
std::pair<std::int32_t, float> predicted_class(std::span<const float> logits);

class ClassPredictions {
 public:
  /// Adds a micro-batch, whose first row is target number `first_target` of the data set.
  void add(const HostLogits& logits, std::int64_t first_target);
  /// Collective. The predictions of all ranks, in the order of the data set.
  std::vector<ClassPrediction> gather(Communicator& comm) const;

 private:
  std::vector<ClassPrediction> predictions_;
};

}  // namespace trireme
