#include "launcher/train/class_predictions.h"

#include <algorithm>
#include <cmath>

namespace trireme {

std::pair<std::int32_t, float> predicted_class(std::span<const float> logits) {
  std::size_t best = logits.size();
  for (std::size_t c = 0; c < logits.size(); ++c) {
    if (!std::isnan(logits[c]) && (best == logits.size() || logits[c] > logits[best])) best = c;
  }
  if (best == logits.size()) return {0, 0.0f};
  double sum = 0;
  for (const float logit : logits) {
    if (!std::isnan(logit)) sum += std::exp(static_cast<double>(logit) - static_cast<double>(logits[best]));
  }
  return {static_cast<std::int32_t>(best), static_cast<float>(1 / sum)};
}

void ClassPredictions::add(const HostLogits& logits, std::int64_t first_target) {
  for (std::size_t row = 0; row < logits.num_rows(); ++row) {
    if (logits.target(row) < 0) continue;  // left out
    const auto [predicted, probability] = predicted_class(logits.row(row));
    predictions_.push_back(
        {first_target + static_cast<std::int64_t>(row), logits.target(row), predicted, probability});
  }
}

std::vector<ClassPrediction> ClassPredictions::gather(Communicator& comm) const {
  // Ranks have different numbers, and an exchange has the same size on each.
  const std::vector<std::uint64_t> counts =
      comm.all_gather_value(static_cast<std::uint64_t>(predictions_.size()));
  std::vector<ClassPrediction> padded = predictions_;
  padded.resize(std::ranges::max(counts));
  const std::vector<ClassPrediction> all = comm.all_gather_values(std::span<const ClassPrediction>(padded));
  std::vector<ClassPrediction> found;
  for (std::size_t rank = 0; rank < counts.size(); ++rank) {
    const auto own = std::span(all).subspan(rank * padded.size(), counts[rank]);
    found.insert(found.end(), own.begin(), own.end());
  }
  std::ranges::sort(found, {}, &ClassPrediction::target_index);
  return found;
}

}  // namespace trireme
