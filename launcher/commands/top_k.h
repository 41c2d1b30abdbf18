// Top-k accuracy: the share of targets, classes or next tokens, that are among the k likeliest.
#pragma once

#include <cstdint>
#include <span>

#include "runtime/context.h"

namespace trireme {

/// Classes that come before `target`: those with a larger logit, and of equal ones those with a smaller
/// number. A logit that is not a number comes last; the number of classes when the target's own is none.
/// Integers, so that sums do not depend on who adds them.
std::int64_t rank_of_target(std::span<const float> logits, std::int32_t target);

/// Counts over targets.
struct TopK {
  std::int64_t top1 = 0, top5 = 0, num_targets = 0;
  std::int64_t num_classes = 0;  // 0: no micro-batch was added

  /// A micro-batch: logits [..., C], as many targets as rows, int32 in [0, C), negative where left out. Waits
  /// for the device.
  void add(const Context& ctx, const Tensor& logits, const Tensor& targets);
  /// False where every target is among the five likeliest, as there are no more classes.
  bool tells_top5() const { return num_classes > 5; }
  /// Of the counts of all ranks.
  static TopK sum(std::span<const TopK> counts);
};

}  // namespace trireme
