// Time that a rank spends in each phase of a step.
//
// [Note: phases of a step] Before each action the executor enters the action's phase (ActionTraits::spent).
// On the host, the rank then reads the clock, and the time that its communicators spent posting and waiting
// (Communicator::exposed_ms): tens of nanoseconds. A device runs behind the host, so the host enqueues marks:
// where the phase changes, where the stream waits for another rank, and around the reading of a batch. The
// times between marks are read with the step's results, which are complete by then, so no step waits for the
// host. Waiting for other ranks counts as exchange, and waiting for a micro-batch of data counts as data
// wait, in every action. A recorded or replayed step has no phases, because a mark belongs to one moment.
#pragma once

#include <cstddef>
#include <memory>

#include "parallel/mesh/mesh_groups.h"
#include "parallel/plan/action.h"
#include "runtime/context.h"

namespace trireme {

/// A rank's seconds in each phase of a step. The phases do not overlap.
struct StepPhases {
  double data_wait_s = 0;  // in BatchSource; on a device, the time it was idle for that
  double forward_s = 0;
  double backward_s = 0;   // includes recompute
  double exchange_s = 0;   // in exchanges, and in posting and waiting within all other actions
  double optimizer_s = 0;  // gradient norm and update
  double waited_s = 0;  // part of exchange_s in posting and waiting; the rest is work, as sums of gradients

  /// Seconds without waiting for other ranks.
  double busy_s() const {
    return data_wait_s + forward_s + backward_s + optimizer_s + (exchange_s - waited_s);
  }
};

/// Times steps one after the other. Evaluations are not timed.
class PhaseClock {
 public:
  virtual ~PhaseClock() = default;

  /// Begins a step. Discards the data of a step that failed.
  virtual void begin() = 0;
  /// Enters a phase: time from now on is counted as `spent`.
  virtual void enter(TimeSpent spent) = 0;
  /// The rank waits for a micro-batch between these.
  virtual void begin_data_wait() = 0;
  virtual void end_data_wait() = 0;
  /// Call it when the last action has ended or is enqueued.
  virtual void finish() = 0;
  /// The phases of the oldest finished step that was not taken yet. Its results must have been read.
  virtual StepPhases take() = 0;
};

enum class Recorded { kNo, kYes };

/// A clock for a rank's steps; null if its device records them. Observes the waits of `groups`, which
/// outlives it. Up to `max_pending` finished steps may wait for take().
std::unique_ptr<PhaseClock> make_phase_clock(const Context& ctx, const MeshGroups& groups, Recorded recorded,
                                             std::size_t max_pending);

/// The clock for a device that runs behind the host, from marks on its stream (kernels/backend_marks.h).
std::unique_ptr<PhaseClock> make_stream_phase_clock(const Context& ctx, const MeshGroups& groups,
                                                    std::size_t max_pending);

/// The member of StepPhases that an action's time is added to.
double StepPhases::*phase_of(TimeSpent spent);

}  // namespace trireme
