// Times of the calls of a step while the step runs: with what the calls before them left in the caches, and
// with the host's work between them. Of devices whose calls have finished when they return.
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
  double us = 0;  // from the end of the call before it to its own end, on average
};

struct StepCallTimesOptions {
  Device device;
  int threads = 1;
  double seconds = 0.5;  // of steps that count, or `least_steps` where they take longer
  int least_steps = 3;
};

/// Runs steps of the job's rank 0 alone, on batches of `source`, and takes the median of each call over them.
/// Two steps before do not count. Throws Error(kUnsupported) for a device that only enqueues its calls.
std::vector<TimedCall> time_calls_of_step(PlannedJob job, const BatchSource& source,
                                          const StepCallTimesOptions& options);

}  // namespace trireme
