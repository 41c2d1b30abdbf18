// Cost of a run: devices, storage and network, reserved or preemptible.
#pragma once

#include <optional>
#include <vector>

#include "parallel/cluster/cluster.h"
#include "parallel/cost/run_simulate.h"

namespace trireme {

/// A run with known step times.
struct CostedRun {
  std::vector<ScalePoint> points;
  RankPolicy policy;  // chooses among the points
  double steps = 0;
  double checkpoint_gb = 0;  // of one checkpoint
  double kept_checkpoints = 1;
  std::optional<double> save_s;  // measured; empty: from the cluster's save_gb_s
};

enum class Offer : std::uint8_t { kReserved, kPreemptible };

struct RunCost {
  Offer offer = Offer::kReserved;
  RunOutcome outcome;
  double save_s = 0;
  double devices = 0, storage = 0, network = 0;  // in the currency of the prices
  double total() const { return devices + storage + network; }
};

/// `price_per_hour` is for a reserved device. Preemptible ones cost less, by
/// ClusterCost::preemptible_discount, and are interrupted more often. Devices are paid from the first step to
/// the last, including restarts. `network` is the cost of sending checkpoints to the storage.
RunCost cost_of_run(const CostedRun& run, const ClusterCost& cost, double price_per_hour, Offer offer,
                    std::uint64_t seed);

}  // namespace trireme
