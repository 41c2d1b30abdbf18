// Times of the calls of a running step: with the cache contents left by earlier calls, and with the host's
// work between calls. For devices whose calls have finished when they return.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "parallel/foresee/op_time.h"
#include "parallel/foresee/predict.h"

namespace trireme {

/// A call, or several of one kernel and size.
struct TimedCall {
  std::string kernel;  // kernel_of()
  OpCost cost;
  double inner = 0;  // as OpShape::inner
  double us = 0;     // mean time from the end of the previous call to its own end
};

struct StepCallTimesOptions {
  Device device;
  int threads = 1;
  double seconds = 0.5;  // duration of the measured steps; at least `least_steps` are measured
  int least_steps = 3;
};

/// Runs steps of the job's rank 0 alone, on batches of `source`, and takes the median of each call over them,
/// after two warm-up steps. Throws Error(kUnsupported) for a device that only enqueues its calls.
std::vector<TimedCall> time_calls_of_step(PlannedJob job, const BatchSource& source,
                                          const StepCallTimesOptions& options);

}  // namespace trireme
