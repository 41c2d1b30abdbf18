// Where the time of a step goes on a rank.
//
// [Note: phases of a step] The executor says before each action what its time is spent on
// (ActionTraits::spent). On the host the rank reads the clock there, and how long its communicators have
// posted and waited (Communicator::exposed_ms): tens of nanoseconds. On a device that runs behind the host it
// enqueues a mark where the phase changes, where the stream is made to wait for another rank, and around the
// reading of a batch; the times between marks are read with the step's results, which have been waited for by
// then, so that no step waits for the host. What was waited for other ranks is of the exchange, and what was
// waited for a micro-batch of the data, in whatever action it was. A step that is recorded, or replayed, has
// no phases: a mark is of one moment.
#pragma once

#include <cstddef>
#include <memory>

#include "parallel/mesh/mesh_groups.h"
#include "parallel/plan/action.h"
#include "runtime/context.h"

namespace trireme {

/// Seconds of a rank within a step. They do not overlap.
struct StepPhases {
  double data_wait_s = 0;  // in BatchSource; of a device, what it stood still for that
  double forward_s = 0;
  double backward_s = 0;   // with the recomputing of activations
  double exchange_s = 0;   // in actions that exchange, and in posting and waiting within all others
  double optimizer_s = 0;  // gradient norm and update
  double waited_s = 0;     // of exchange_s in posting and waiting: the rest is work, as the sums of gradients

  /// Without waiting for others.
  double busy_s() const {
    return data_wait_s + forward_s + backward_s + optimizer_s + (exchange_s - waited_s);
  }
};

/// Times steps, one after the other; evaluations are no steps.
class PhaseClock {
 public:
  virtual ~PhaseClock() = default;

  /// A step begins. What one that failed has left is forgotten.
  virtual void begin() = 0;
  /// What the rank does from now on is spent on this.
  virtual void enter(TimeSpent spent) = 0;
  /// The rank waits for a micro-batch between these.
  virtual void begin_data_wait() = 0;
  virtual void end_data_wait() = 0;
  /// The last action has ended, or is enqueued.
  virtual void finish() = 0;
  /// Of the oldest finished step that was not taken yet. Its results have been read.
  virtual StepPhases take() = 0;
};

enum class Recorded { kNo, kYes };

/// Of a rank's steps; null where its device records them. Observes the waits of `groups`, which outlives it.
/// Up to `max_pending` finished steps are not taken yet.
std::unique_ptr<PhaseClock> make_phase_clock(const Context& ctx, const MeshGroups& groups, Recorded recorded,
                                             std::size_t max_pending);

/// The same where the device runs behind the host: from marks on its stream (kernels/backend_marks.h).
std::unique_ptr<PhaseClock> make_stream_phase_clock(const Context& ctx, const MeshGroups& groups,
                                                    std::size_t max_pending);

/// Which of StepPhases an action's time is a part of.
double StepPhases::*phase_of(TimeSpent spent);

}  // namespace trireme
