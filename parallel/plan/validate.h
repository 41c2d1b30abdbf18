// Proves a plan before it runs, by simulating all ranks without a device.
//
// Checked: every action has what its kind takes; every receive meets its send and every send its receive, in
// one order on both sides; all ranks of a group (along an axis, or the world) make the same collectives in
// the same order; a unit runs only on its stage, while its parameters are resident, on an input that has
// arrived; it is gathered once where the plan says that parameters are kept; backward follows its forward,
// and the gradient of its output, and comes in micro-batch order; gradients are reduced after their last
// backward, gathered where every rank updates everything, and before the norm; tied parameters are exchanged;
// where the data axis has two levels, both halves of each exchange come, in their order; norms are complete
// before the clip coefficient, that before the update; every unit is updated once, and
// every copy of it brought up to date. At the end nothing is left gathered, forwarded or in flight, and every
// rank has run its units on all of its micro-batches and has the loss. Of a plan that the planner writes no
// action can be left out.
//
// [Note: what blocks] A receive is posted by its action; the action that uses it waits. A send waits
// while the receives of send_window earlier ones from its unit (of its kind) have not been posted: that
// bounds the outputs that are alive for their transport alone. Collectives wait for all of their group, and
// ReduceLoss for all sends. A plan that passes cannot deadlock.
//
// [Note: channels of a plan] The messages from rank to rank that carry activations, those that carry
// gradients, and those about tied parameters, are a channel each. On a channel everything is sent in the
// order in which its receives are posted: that is checked, also where chunks of one stage share a channel. So
// a communicator may run it as a queue whose messages wait for each other, and for both sides of each (NCCL
// does), and nothing waits longer: when both ranks have come to a message they have come to all before it on
// the channel, too, so that those end, one after the other, and then it.
#pragma once

#include <optional>
#include <string>

#include "parallel/plan/plan.h"

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
