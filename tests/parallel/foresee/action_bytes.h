// Bytes that the actions of a plan send, computed only from the plan and the layout, without running it.
#pragma once

#include <cstdint>
#include <map>

#include "parallel/layout/model_layout.h"
#include "parallel/plan/plan.h"
#include "parallel/run/engine.h"

namespace trireme {

struct TrafficFacts {
  const BlockList& blocks;
  const EngineOptions& options;  // with `sample` if there are several stages
  const ModelLayout& layout;
  const StepPlan& plan;  // of a training step
  int rank = 0;
};

/// Bytes that a rank sends in a step, by kind of action.
std::map<ActionKind, std::int64_t> sent_by_kind(const TrafficFacts& facts);

}  // namespace trireme
