// Converts actions of a plan to spans of a timeline: kind, chunk and label come from the plan, times from the
// caller.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "parallel/plan/plan.h"
#include "parallel/plan/timeline.h"

namespace trireme {

class ActionSpans {
 public:
  /// Both outlive this.
  ActionSpans(const StepPlan& plan, const std::vector<std::string>& unit_names);

  TimelineSpan span(int rank, const Action& action, double start_ms, double end_ms) const;

 private:
  const std::vector<std::string>& unit_names_;
  std::vector<std::map<int, int>> chunks_;  // [rank][unit]: index of the rank's run of neighbouring units
};

}  // namespace trireme
