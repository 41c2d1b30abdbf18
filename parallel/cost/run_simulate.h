// Simulates runs that are interrupted at random: what they take in the end, on devices that may fail or be
// taken away, and on numbers of ranks that change.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

namespace trireme {

/// A number of ranks that a run may have.
struct ScalePoint {
  int num_ranks = 1;
  double step_s = 0;
};

/// Which of the points the run goes on with, asked at its start, after each save and each interruption.
using RankPolicy = std::function<std::size_t(double share_done, double elapsed_s)>;

struct SimulatedRun {
  std::vector<ScalePoint> points;
  RankPolicy policy;
  double steps = 0;
  double save_s = 0;     // of a checkpoint
  double restart_s = 0;  // after an interruption, and to change the number of ranks
  double interruptions_per_hour =
      0;  // of one rank; each ends the job, which goes on from its last checkpoint
};

/// Means over the simulated runs, but for the quantiles.
struct RunOutcome {
  double hours = 0, device_hours = 0;
  double hours_low = 0, hours_high = 0;  // 5 of 100 runs are faster, 5 slower
  double interruptions = 0, saves = 0;
  double lost_hours = 0;  // of work that was done again
};

/// Interruptions come as a Poisson process, the intervals between saves are daly_interval_s(). Runs
/// `num_runs` runs, of random numbers that follow from `seed` alone. Throws Error(kInvalidInput) for a run
/// that could not end: where nearly every try to reach the next checkpoint fails.
RunOutcome simulate_runs(const SimulatedRun& run, std::uint64_t seed, int num_runs = 200);

/// Seconds of work between saves on this point; 0 where nothing interrupts it.
double save_interval_s(const SimulatedRun& run, const ScalePoint& point);

}  // namespace trireme
