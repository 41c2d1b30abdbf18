// Every single change of a plan: an action left out, made twice, swapped with the next, or with another unit,
// micro-batch, peer or keep.
#pragma once

#include <string>
#include <vector>

#include "parallel/plan/plan.h"

namespace trireme::testing {

struct PlanMutation {
  enum class Kind : std::uint8_t { kDelete, kDuplicate, kSwap, kUnit, kMicroBatch, kPeer, kKeep };
  Kind kind = Kind::kDelete;
  int rank = 0;
  std::size_t position = 0;
  int value = 0;  // the new unit, micro-batch, peer or keep

  StepPlan of(StepPlan plan) const;
  /// "rank 1, action 4 (Forward unit 3 micro-batch 0): unit 2".
  std::string to_string(const StepPlan& plan) const;
};

/// All mutations. Units, micro-batches and peers run from -1 to one more than their number.
std::vector<PlanMutation> all_mutations(const StepPlan& plan);

}  // namespace trireme::testing
