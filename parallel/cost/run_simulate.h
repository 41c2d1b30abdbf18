// Simulates runs that are interrupted at random, on devices that may fail or be taken away, with a changing
// number of ranks.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

namespace trireme {

/// A number of ranks for a run, and its step time.
struct ScalePoint {
  int num_ranks = 1;
  double step_s = 0;
};

/// Returns the point to continue with. Called at the start, after each save and after each interruption.
using RankPolicy = std::function<std::size_t(double share_done, double elapsed_s)>;

struct SimulatedRun {
  std::vector<ScalePoint> points;
  RankPolicy policy;
  double steps = 0;
  double save_s = 0;                  // of a checkpoint
  double restart_s = 0;               // after an interruption, and to change the number of ranks
  double interruptions_per_hour = 0;  // per rank; each ends the job, which continues from its last checkpoint
};

/// Means over the simulated runs, except for the quantiles.
struct RunOutcome {
  double hours = 0, device_hours = 0;
  double hours_low = 0, hours_high = 0;  // 5th and 95th percentile
  double interruptions = 0, saves = 0;
  double lost_hours = 0;  // work that was repeated
};

/// Interruptions are a Poisson process; intervals between saves are daly_interval_s(). Simulates `num_runs`
/// runs, with random numbers that depend only on `seed`. Throws Error(kInvalidInput) if a run could not end
/// because nearly every attempt to reach the next checkpoint fails.
RunOutcome simulate_runs(const SimulatedRun& run, std::uint64_t seed, int num_runs = 200);

/// Seconds of work between saves at this point; 0 without interruptions.
double save_interval_s(const SimulatedRun& run, const ScalePoint& point);

}  // namespace trireme
