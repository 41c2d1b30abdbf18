#include "parallel/cost/run_simulate.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "parallel/cost/checkpoint_interval.h"
#include "runtime/base/error.h"

namespace trireme {
namespace {

constexpr double kMostInterruptions = 1e5;  // limit for a simulated run
constexpr double kMostParts = 1e8;          // limit for all runs: parts between saves
constexpr double kQuestions = 100;          // calls of the policy in a run without interruptions

double mtbf_s(const SimulatedRun& run, const ScalePoint& point) {
  const double an_hour = run.interruptions_per_hour * point.num_ranks;
  return an_hour > 0 ? 3600 / an_hour : std::numeric_limits<double>::infinity();
}

class OneRun {
 public:
  OneRun(const SimulatedRun& run, std::mt19937_64& random) : run_(run), random_(random) {}

  RunOutcome play() {
    double done = 0;
    std::size_t current = run_.policy(0, 0);
    while (done < run_.steps) {
      const ScalePoint& point = run_.points.at(current);
      const double interval = save_interval_s(run_, point);
      // Without interruptions only the end is saved, and the policy is called at regular intervals.
      const double wanted = interval > 0 ? std::max(1.0, std::round(interval / point.step_s))
                                         : std::ceil(run_.steps / kQuestions);
      const double steps = std::min(wanted, run_.steps - done);
      const bool saves = interval > 0 || done + steps >= run_.steps;
      const double span = steps * point.step_s + (saves ? run_.save_s : 0);
      const double until = time_to_interruption(point);
      if (until < span) {
        pass(until, point);
        outcome_.lost_hours += until / 3600;
        restart(point);
      } else {
        pass(span, point);
        done += steps;
        if (saves) ++outcome_.saves;
      }
      const std::size_t next = run_.policy(done / run_.steps, 3600 * outcome_.hours);
      if (next != current && done < run_.steps) {
        pass(run_.restart_s + (interval > 0 ? 0 : run_.save_s), run_.points.at(next));
        if (interval == 0) ++outcome_.saves;
      }
      current = next;
    }
    return outcome_;
  }

 private:
  double time_to_interruption(const ScalePoint& point) {
    const double mtbf = mtbf_s(run_, point);
    if (std::isinf(mtbf)) return mtbf;
    const double uniform = static_cast<double>(random_() >> 11) * 0x1p-53;  // [0, 1)
    return -mtbf * std::log1p(-uniform);
  }

  void pass(double seconds, const ScalePoint& point) {
    outcome_.hours += seconds / 3600;
    outcome_.device_hours += seconds / 3600 * point.num_ranks;
  }

  /// A restart may be interrupted, too.
  void restart(const ScalePoint& point) {
    for (;;) {
      ++outcome_.interruptions;
      TRIREME_CHECK(outcome_.interruptions < kMostInterruptions,
                    "{} ranks are interrupted every {:.3g} s, a save takes {:.3g} s and a restart {:.3g} s: "
                    "the run does not end",
                    point.num_ranks, mtbf_s(run_, point), run_.save_s, run_.restart_s);
      const double until = time_to_interruption(point);
      pass(std::min(until, run_.restart_s), point);
      if (until >= run_.restart_s) return;
    }
  }

  const SimulatedRun& run_;
  std::mt19937_64& random_;
  RunOutcome outcome_;
};

}  // namespace

double save_interval_s(const SimulatedRun& run, const ScalePoint& point) {
  const double mtbf = mtbf_s(run, point);
  if (std::isinf(mtbf)) return 0;
  return daly_interval_s(std::max(run.save_s, 1e-3), mtbf);
}

RunOutcome simulate_runs(const SimulatedRun& run, std::uint64_t seed, int num_runs) {
  TRIREME_CHECK(num_runs >= 1 && run.steps > 0 && !run.points.empty(),
                "{} simulated runs of {} steps on {} numbers of ranks: each must be above 0", num_runs,
                run.steps, run.points.size());
  for (const ScalePoint& point : run.points) {
    TRIREME_CHECK(point.step_s > 0 && point.num_ranks > 0, "a step of {} s on {} ranks", point.step_s,
                  point.num_ranks);
    const double interval = save_interval_s(run, point);
    const double saves = interval > 0 ? run.steps / std::max(1.0, interval / point.step_s) : 0;
    TRIREME_CHECK(
        saves * num_runs < kMostParts,
        "a run of {:.3g} steps of {:.3g} s has {:.3g} checkpoints: too many to simulate {} such runs; "
        "ask for fewer steps",
        run.steps, point.step_s, saves, num_runs);
  }
  std::mt19937_64 random(seed);
  RunOutcome mean;
  std::vector<double> hours;
  for (int i = 0; i < num_runs; ++i) {
    const RunOutcome one = OneRun(run, random).play();
    hours.push_back(one.hours);
    for (double RunOutcome::*part :
         {&RunOutcome::hours, &RunOutcome::device_hours, &RunOutcome::interruptions, &RunOutcome::saves,
          &RunOutcome::lost_hours}) {
      mean.*part += one.*part / num_runs;
    }
  }
  std::ranges::sort(hours);
  const auto at = [&](double share) { return hours[static_cast<std::size_t>(share * (num_runs - 1))]; };
  mean.hours_low = at(0.05);
  mean.hours_high = at(0.95);
  return mean;
}

}  // namespace trireme
