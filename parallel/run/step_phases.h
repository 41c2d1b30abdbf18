// Where the time of a step goes on a rank, from clocks that are read between its actions.
//
// [Note: phases of a step] After each action the rank reads the clock and how long its communicators have
// posted and waited (Communicator::exposed_ms): tens of nanoseconds. An action's time is of the phase of its
// kind (ActionTraits::spent), but for what it posted or waited in it, which is of the exchange, and for what
// it waited for a micro-batch. On a device that runs behind the host such clocks say nothing, and a step has
// no phases there.
#pragma once

#include <chrono>
#include <vector>

#include "parallel/mesh/mesh_groups.h"
#include "parallel/plan/action.h"

namespace trireme {

/// Seconds of a rank within a step. They do not overlap.
struct StepPhases {
  double data_wait_s = 0;  // in BatchSource
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

class PhaseClock {
 public:
  /// `groups` outlives this.
  explicit PhaseClock(const MeshGroups& groups);

  /// Forgets what was timed.
  void reset() { phases_ = {}; }
  /// The first action begins.
  void start();
  /// An action has ended, and the next begins.
  void lap(TimeSpent spent);
  /// A part of the action that runs, or of what is done before the first, was waiting for data.
  void add_data_wait(double seconds);

  const StepPhases& phases() const { return phases_; }

 private:
  double waited_s() const;

  std::vector<Communicator*> comms_;
  std::chrono::steady_clock::time_point last_;
  double last_waited_s_ = 0, data_wait_s_ = 0;  // at last_; since then
  StepPhases phases_;
};

}  // namespace trireme
