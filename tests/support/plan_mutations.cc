#include "tests/support/plan_mutations.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

namespace trireme::testing {
namespace {

using Kind = PlanMutation::Kind;

std::string to_text(const PlanMutation& mutation) {
  switch (mutation.kind) {
    case Kind::kDelete:
      return "left out";
    case Kind::kDuplicate:
      return "made twice";
    case Kind::kSwap:
      return "swapped with the next";
    case Kind::kUnit:
      return fmt::format("unit {}", mutation.value);
    case Kind::kMicroBatch:
      return fmt::format("micro-batch {}", mutation.value);
    case Kind::kPeer:
      return fmt::format("peer {}", mutation.value);
    case Kind::kKeep:
      return fmt::format("keep {}", mutation.value);
  }
  return "?";
}

}  // namespace

StepPlan PlanMutation::of(StepPlan plan) const {
  std::vector<Action>& actions = plan.ranks[static_cast<std::size_t>(rank)].actions;
  const auto at = actions.begin() + static_cast<std::ptrdiff_t>(position);
  switch (kind) {
    case Kind::kDelete:
      actions.erase(at);
      break;
    case Kind::kDuplicate:
      actions.insert(at, Action(*at));
      break;
    case Kind::kSwap:
      std::iter_swap(at, at + 1);
      break;
    case Kind::kUnit:
      at->unit = value;
      break;
    case Kind::kMicroBatch:
      at->micro_batch = value;
      break;
    case Kind::kPeer:
      at->peer = value;
      break;
    case Kind::kKeep:
      at->keep = static_cast<Keep>(value);
      break;
  }
  return plan;
}

std::string PlanMutation::to_string(const StepPlan& plan) const {
  return fmt::format("rank {}, action {} ({}): {}", rank, position,
                     trireme::to_string(plan.ranks[static_cast<std::size_t>(rank)].actions[position]),
                     to_text(*this));
}

std::vector<PlanMutation> all_mutations(const StepPlan& plan) {
  std::vector<PlanMutation> all;
  for (int r = 0; r < plan.mesh.num_ranks(); ++r) {
    const RankPlan& rank = plan.ranks[static_cast<std::size_t>(r)];
    for (std::size_t i = 0; i < rank.actions.size(); ++i) {
      const auto add = [&](Kind kind, int value = 0) { all.push_back({kind, r, i, value}); };
      const auto add_others = [&](Kind kind, int present, int first, int end) {
        for (int value = first; value < end; ++value) {
          if (value != present) add(kind, value);
        }
      };
      const Action& action = rank.actions[i];
      add(Kind::kDelete);
      add(Kind::kDuplicate);
      if (i + 1 < rank.actions.size()) add(Kind::kSwap);
      add_others(Kind::kUnit, action.unit, -1, plan.num_units + 1);
      add_others(Kind::kMicroBatch, action.micro_batch, -1, rank.micro_batches + 1);
      add_others(Kind::kPeer, action.peer, -1, plan.mesh.num_ranks() + 1);
      add_others(Kind::kKeep, static_cast<int>(action.keep), 0, static_cast<int>(Keep::kNothing) + 1);
    }
  }
  return all;
}

}  // namespace trireme::testing
