// Finds the first gradient that is not finite.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "parallel/run/optimizer_step.h"
#include "parallel/run/rank_parts.h"

namespace trireme {

/// The first non-finite gradient of a step: in the first micro-batch that has one, the first in backward
/// order.
struct NonFiniteGradient {
  std::string block;              // its backward computed the gradient
  std::string parameter;          // full name; for a tied parameter, the owner's
  std::int64_t micro_batch = -1;  // of the global batch. -1: each gradient was finite, but not their sum
  int rank = -1;                  // computed the gradient; -1 for the sum
};

/// "parameter 'head.weight' of block 'head', micro-batch 3, on rank 1".
std::string to_string(const NonFiniteGradient& found);

/// Finds the gradient that made a step be skipped. A skipped step leaves the parameters unchanged, and
/// everything is deterministic, so the step is played again and this class checks the gradients after every
/// backward. Steps that are not skipped have no overhead. Allocates nothing on the device: it uses the
/// optimizer step's memory, see OptimizerStep::norm_partials.
class NonFiniteSearch {
 public:
  /// All arguments outlive this.
  NonFiniteSearch(const RankParts& parts, const BatchLayout& batch, const OptimizerStep& optimizer_step)
      : parts_(parts), batch_(batch), optimizer_step_(optimizer_step) {}

  /// Searches the norms of the last step, which every rank has for all groups. Call it before a replay.
  std::optional<NonFiniteGradient> find_in_sums() const;
  /// The LeafObserver of a replay. Waits for the device.
  void look(int micro_batch, const GradAccumulator::Leaf& leaf);
  /// The first non-finite gradient on any rank. Collective.
  std::optional<NonFiniteGradient> first_of_ranks() const;

 private:
  /// The gradient of one use of a parameter; unit -1: none.
  struct UseGradient {
    std::int64_t micro_batch = -1;  // of the global batch
    int unit = -1, index = -1;      // in ModelLayout::uses
    /// Order in which a step on one rank computes them.
    bool comes_before(const UseGradient& other) const;
  };

  const RankParts& parts_;
  const BatchLayout& batch_;
  const OptimizerStep& optimizer_step_;
  UseGradient first_;  // found on this rank
};

}  // namespace trireme
