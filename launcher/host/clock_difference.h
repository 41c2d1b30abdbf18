// Differences between the clocks of a job's hosts.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "parallel/comm/communicator.h"

namespace trireme {

/// Bounds of a rank's clock minus rank 0's, in ms. The true difference is between them.
struct ClockDifference {
  double low_ms = 0, high_ms = 0;

  double middle_ms() const { return (low_ms + high_ms) / 2; }
  double error_ms() const { return (high_ms - low_ms) / 2; }
};

/// Milliseconds of this host's system clock since the epoch.
double system_clock_ms();

/// [rank]: the difference from rank 0. Collective.
///
/// Every rank reads its clock before and after an all-gather. No rank leaves an all-gather before all ranks
/// have entered it, so each rank's first reading is earlier than every rank's second one. That bounds the
/// difference from both sides, without an assumption about the network. The tightest bounds of several rounds
/// count. `clock` replaces system_clock_ms() in tests.
std::vector<ClockDifference> measure_clocks(Communicator& comm,
                                            const std::function<double()>& clock = system_clock_ms);

}  // namespace trireme
