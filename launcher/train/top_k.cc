#include "launcher/train/top_k.h"

#include <algorithm>
#include <cmath>

namespace trireme {

std::int64_t rank_of_target(std::span<const float> logits, std::int32_t target) {
  const auto t = static_cast<std::size_t>(target);
  if (std::isnan(logits[t])) return static_cast<std::int64_t>(logits.size());
  std::int64_t rank = 0;
  for (std::size_t c = 0; c < logits.size(); ++c) {
    if (logits[c] > logits[t] || (logits[c] == logits[t] && c < t)) ++rank;
  }
  return rank;
}

void TopK::add(const HostLogits& logits) {
  num_classes = logits.num_classes();
  for (std::size_t row = 0; row < logits.num_rows(); ++row) {
    if (logits.target(row) < 0) continue;  // left out
    const std::int64_t rank = rank_of_target(logits.row(row), logits.target(row));
    top1 += rank < 1;
    top5 += rank < 5;
    ++num_targets;
  }
}

TopK TopK::sum(std::span<const TopK> counts) {
  TopK total;
  for (const TopK& one : counts) {
    total.top1 += one.top1;
    total.top5 += one.top5;
    total.num_targets += one.num_targets;
    total.num_classes = std::max(total.num_classes, one.num_classes);
  }
  return total;
}

}  // namespace trireme
