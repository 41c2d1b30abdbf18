// Top-k accuracy: the share of targets (classes or next tokens) among the k most likely.
#pragma once

#include <cstdint>
#include <span>

#include "launcher/train/host_logits.h"

namespace trireme {

/// Number of classes ranked before `target`: a larger logit first; on ties the smaller class number. A NaN
/// logit ranks last; if the target's own logit is NaN, returns the number of classes. Integers, so that sums
/// do not depend on the order of addition.
std::int64_t rank_of_target(std::span<const float> logits, std::int32_t target);

/// Counts over targets.
struct TopK {
  std::int64_t top1 = 0, top5 = 0, num_targets = 0;
  // An answer is a run of targets in a sample. It is exact if each of its targets is ranked first: greedy
  // sampling then gives the same answer.
  std::int64_t exact_answers = 0, num_answers = 0;
  std::int64_t num_classes = 0;  // 0: no micro-batch was added

  /// Adds a micro-batch with `sample_rows` rows for each sample.
  void add(const HostLogits& logits, std::int64_t sample_rows);
  /// False if there are at most five classes, so that every target is in the top five.
  bool tells_top5() const { return num_classes > 5; }
  /// The sum over the ranks' counts.
  static TopK sum(std::span<const TopK> counts);
};

}  // namespace trireme
