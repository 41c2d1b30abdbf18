// Plans as readable, diffable text, one action per line.
#pragma once

#include <string>
#include <vector>

#include "parallel/plan/plan.h"

namespace trireme {

/// Ranks with equal plans; classes are ordered by their first rank.
struct PlanClass {
  std::vector<int> ranks;
  const RankPlan* plan = nullptr;
};
std::vector<PlanClass> classes_of_equal_plans(const StepPlan& plan);

/// "0-3, 5".
std::string format_ranks(const std::vector<int>& ranks);

/// "Forward unit 2 (blocks.1) micro-batch 0".
std::string to_text(const Action& action, const std::vector<std::string>& unit_names);

/// All actions of all ranks, equal plans once: "ranks 0-7", then "  Forward unit 2 (blocks.1) micro-batch 0"
/// ...
std::string to_text(const StepPlan& plan, const std::vector<std::string>& unit_names);

}  // namespace trireme
