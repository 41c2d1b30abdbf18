#include "parallel/cost/checkpoint_interval.h"

#include <cmath>

#include "runtime/base/error.h"

namespace trireme {
namespace {

void check_times(double save_s, double mtbf_s) {
  TRIREME_CHECK(save_s > 0 && mtbf_s > 0, "a save of {} s, {} s between interruptions: both must be above 0",
                save_s, mtbf_s);
}

}  // namespace

double young_interval_s(double save_s, double mtbf_s) {
  check_times(save_s, mtbf_s);
  return std::sqrt(2 * save_s * mtbf_s);
}

double daly_interval_s(double save_s, double mtbf_s) {
  check_times(save_s, mtbf_s);
  if (save_s >= 2 * mtbf_s) return mtbf_s;
  const double ratio = save_s / (2 * mtbf_s);
  return std::sqrt(2 * save_s * mtbf_s) * (1 + std::sqrt(ratio) / 3 + ratio / 9) - save_s;
}

double expected_run_s(const InterruptedWork& run) {
  TRIREME_CHECK(run.interval_s > 0 && run.mtbf_s > 0, "{} s between saves, {} s between interruptions",
                run.interval_s, run.mtbf_s);
  return run.mtbf_s * std::exp(run.restart_s / run.mtbf_s) *
         std::expm1((run.interval_s + run.save_s) / run.mtbf_s) * run.work_s / run.interval_s;
}

}  // namespace trireme
