#include "launcher/observe/confusion_matrix.h"

#include "runtime/base/error.h"

namespace trireme {

ConfusionMatrix::ConfusionMatrix(std::span<const ClassPrediction> predictions, std::int64_t classes)
    : num_classes(classes), counts(static_cast<std::size_t>(classes * classes)) {
  for (const ClassPrediction& one : predictions) {
    TRIREME_CHECK(one.target < classes && one.predicted < classes, "class {} or {} is not below {}",
                  one.target, one.predicted, classes);
    ++counts[static_cast<std::size_t>(one.target * classes + one.predicted)];
  }
}

std::int64_t ConfusionMatrix::num_targets(std::int64_t target) const {
  std::int64_t sum = 0;
  for (std::int64_t c = 0; c < num_classes; ++c) sum += at(target, c);
  return sum;
}

std::int64_t ConfusionMatrix::num_predicted(std::int64_t predicted) const {
  std::int64_t sum = 0;
  for (std::int64_t c = 0; c < num_classes; ++c) sum += at(c, predicted);
  return sum;
}

std::int64_t ConfusionMatrix::most_confused(std::int64_t target) const {
  std::int64_t worst = -1;
  for (std::int64_t c = 0; c < num_classes; ++c) {
    if (c != target && at(target, c) > (worst < 0 ? 0 : at(target, worst))) worst = c;
  }
  return worst;
}

}  // namespace trireme
