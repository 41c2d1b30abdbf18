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

void TopK::add(const HostLogits& logits, std::int64_t sample_rows) {
  num_classes = logits.num_classes();
  bool in_answer = false, is_exact = false;
  for (std::size_t row = 0; row < logits.num_rows(); ++row) {
    if (static_cast<std::int64_t>(row) % sample_rows == 0) in_answer = false;
    if (logits.target(row) < 0) {  // left out
      in_answer = false;
      continue;
    }
    const std::int64_t rank = rank_of_target(logits.row(row), logits.target(row));
    top1 += rank < 1;
    top5 += rank < 5;
    ++num_targets;
    if (!in_answer) {
      ++num_answers;
      ++exact_answers;  // until a target is not ranked first
      is_exact = true;
    }
    if (is_exact && rank > 0) {
      --exact_answers;
      is_exact = false;
    }
    in_answer = true;
  }
}

TopK TopK::sum(std::span<const TopK> counts) {
  TopK total;
  for (const TopK& one : counts) {
    total.top1 += one.top1;
    total.top5 += one.top5;
    total.num_targets += one.num_targets;
    total.exact_answers += one.exact_answers;
    total.num_answers += one.num_answers;
    total.num_classes = std::max(total.num_classes, one.num_classes);
  }
  return total;
}

}  // namespace trireme
