// Finds where a gradient stopped being finite.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "parallel/run/optimizer_step.h"
#include "parallel/run/rank_parts.h"

namespace trireme {

/// The first one of a step: of its first micro-batch that has one, the first in the order of backward.
struct NonFiniteGradient {
  std::string block;              // whose backward computed it
  std::string parameter;          // full name; of a tied one, the owner's
  std::int64_t micro_batch = -1;  // of the global batch. -1: of each it was finite, and their sum is not
  int rank = -1;                  // that computed it; -1 with the sum
};

/// "parameter 'head.weight' of block 'head', micro-batch 3, on rank 1".
std::string to_string(const NonFiniteGradient& found);

/// Looks for the gradient that made a step be skipped. Such a step leaves the parameters as they were, and
/// everything is deterministic: so the same step is played again, and this sees the gradients after every
/// backward. Steps that are not skipped pay nothing for it. Allocates nothing on the device: its memory is
/// the optimizer step's, see OptimizerStep::norm_partials.
class NonFiniteSearch {
 public:
  /// All outlive this.
  NonFiniteSearch(const RankParts& parts, const BatchLayout& batch, const OptimizerStep& optimizer_step)
      : parts_(parts), batch_(batch), optimizer_step_(optimizer_step) {}

  /// From the norms of the last step, which every rank has of all groups. To be called before a replay.
  std::optional<NonFiniteGradient> find_in_sums() const;
  /// The LeafObserver of a replay. Waits for the device.
  void look(int micro_batch, const GradAccumulator::Leaf& leaf);
  /// The first one that any rank has seen. Collective.
  std::optional<NonFiniteGradient> first_of_ranks() const;

 private:
  /// The gradient of a parameter as a unit uses it; unit -1 for none.
  struct UseGradient {
    std::int64_t micro_batch = -1;  // of the global batch
    int unit = -1, index = -1;      // in ModelLayout::uses
    /// In the order in which a step on one rank computes them.
    bool comes_before(const UseGradient& other) const;
  };

  const RankParts& parts_;
  const BatchLayout& batch_;
  const OptimizerStep& optimizer_step_;
  UseGradient first_;  // that this rank has seen
};

}  // namespace trireme
