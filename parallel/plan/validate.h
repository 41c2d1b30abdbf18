// Proves a plan before it runs, by simulating all ranks without a device.
//
// Checks:
//   * every action has the fields of its kind;
//   * every receive matches its send and every send its receive, in one order on both sides;
//   * all ranks of a group (along an axis, or the world) make the same collectives in the same order;
//   * a unit runs only on its stage, while its parameters are resident, on an input that has arrived; it is
//     gathered once if the plan keeps parameters;
//   * backward follows its forward and the gradient of its output, and runs in micro-batch order;
//   * gradients are reduced after their last backward and before the norm, and gathered if every rank
//     updates everything;
//   * tied parameters are exchanged;
//   * if the data axis has two levels, both halves of each exchange run, in order;
//   * norms are complete before the clip coefficient, and the clip coefficient before the update;
//   * every unit is updated once, and so is every copy of it.
//
// At the end nothing is left gathered, forwarded or in flight, and every rank has run its units on all of its
// micro-batches and has the loss. No action of a plan from the planner can be left out.
//
// [Note: what blocks] A receive is posted by its action, and the action that uses it waits. A send from a
// unit waits while send_window earlier sends of its kind from that unit have no posted receive. This bounds
// the outputs that are alive only for transport. Collectives wait for all of their group, and ReduceLoss for
// all sends. A plan that passes cannot deadlock.
//
// [Note: channels of a plan] Between two ranks there is one channel each for activations, gradients and tied
// parameters. On a channel, messages are sent in the order in which their receives are posted. The validator
// checks this order, also if chunks of one stage share a channel. A communicator may therefore run a channel
// as a queue in which each message waits for the previous one and for both of its sides, as NCCL does. No
// message waits longer for that: when both ranks have reached a message, they have reached all earlier ones
// on the channel, so these complete one after the other, and then the message itself.
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

/// The first error, if any. Costs about one pass over all actions.
std::optional<PlanError> find_plan_error(const StepPlan& plan);

/// Throws Error(kInvalidInput) with the message of find_plan_error.
void validate(const StepPlan& plan);

}  // namespace trireme
