#include "launcher/train/top_k.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "runtime/base/error.h"

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

void TopK::add(const Context& ctx, const Tensor& logits, const Tensor& targets) {
  const std::vector<float> values = ctx.to_host(logits);
  std::vector<std::int32_t> labels(static_cast<std::size_t>(targets.num_elems()));
  ctx.backend->copy_to_host(ctx.exec, labels.data(), targets);
  TRIREME_CHECK(logits.shape().num_rows() == targets.num_elems(), "logits {} are not of targets {}",
                logits.shape().to_string(), targets.shape().to_string());
  num_classes = logits.shape().dim(-1);
  const auto row_elems = static_cast<std::size_t>(num_classes);
  for (std::size_t row = 0; row < labels.size(); ++row) {
    if (labels[row] < 0) continue;  // left out
    const std::int64_t rank =
        rank_of_target(std::span(values).subspan(row * row_elems, row_elems), labels[row]);
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
