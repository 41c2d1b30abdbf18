// Proves a plan before it runs, by simulating all ranks without a device.
//
// Checked: every receive meets its send and every send its receive; all ranks of a group make the same
// collectives in the same order; a unit runs only while its parameters are resident, on an input that has
// arrived; backward follows its forward, and the gradient of its output; gradients are reduced after their
// last backward and before the norm; at the end nothing is left gathered, forwarded or under way. Sends do
// not block, receives and collectives do: a plan that passes cannot deadlock.
#pragma once

#include <optional>
#include <string>

#include "parallel/plan.h"

namespace trireme {

struct PlanError {
  int rank = 0;
  int position = -1;    // in the rank's actions; -1: at its end
  std::string message;  // names rank, action, unit, micro-batch and what is wrong
};

/// The first error, or nothing. Costs about one pass over all actions.
std::optional<PlanError> find_plan_error(const StepPlan& plan);

/// Throws Error(kInvalidInput) with the message of find_plan_error.
void validate(const StepPlan& plan);

}  // namespace trireme
