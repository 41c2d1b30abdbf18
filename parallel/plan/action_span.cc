#include "parallel/plan/action_span.h"

#include <set>

#include "parallel/plan/plan_text.h"

namespace trireme {
namespace {

std::map<int, int> chunks_of(const RankPlan& plan) {
  std::set<int> units;
  for (const Action& action : plan.actions) {
    if (action.kind == ActionKind::kForward) units.insert(action.unit);
  }
  std::map<int, int> chunks;
  for (const int unit : units) {
    const bool first = chunks.empty(), follows = chunks.contains(unit - 1);
    chunks[unit] = first ? 0 : follows ? chunks[unit - 1] : chunks.rbegin()->second + 1;
  }
  return chunks;
}

}  // namespace

ActionSpans::ActionSpans(const StepPlan& plan, const std::vector<std::string>& unit_names)
    : unit_names_(unit_names) {
  for (const RankPlan& rank : plan.ranks) chunks_.push_back(chunks_of(rank));
}

TimelineSpan ActionSpans::span(int rank, const Action& action, double start_ms, double end_ms) const {
  const std::map<int, int>& chunks = chunks_[static_cast<std::size_t>(rank)];
  const auto chunk = chunks.find(action.unit);
  return {.rank = rank,
          .spent = traits(action.kind).spent,
          .chunk = chunk == chunks.end() ? 0 : chunk->second,
          .micro_batch = action.micro_batch,
          .label = to_text(action, unit_names_),
          .start_ms = start_ms,
          .end_ms = end_ms};
}

}  // namespace trireme
