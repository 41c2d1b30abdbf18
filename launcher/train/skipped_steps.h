// Decides about steps whose gradients were not finite: go on, or stop, and in which words.
//
// [Note: schedules count steps] A skipped step makes no update, and counts all the same for warm-up and
// decay. The host sets the learning rate when it enqueues a step, while the decision to skip the step before
// may still be on the device ([Note: results a step later] in parallel/run/step_records.h). If updates
// counted, each step would wait for the one before, and the schedule would not end with the last step. So a
// run reports how many of its steps were updates, and one without any fails.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "launcher/config/config.h"
#include "parallel/run/engine.h"
#include "runtime/loss_scaler.h"

namespace trireme {

/// The reason why a job cannot go on after this step, and what to do; empty: it can. Only fp16 with a loss
/// scale goes on after skipped steps, as long as they do not follow one another for ever: in the other cases
/// the next step would be no better.
std::string reason_to_stop(const StepResult& result, const PrecisionSection& precision);

/// The reason why a job whose last step was this one has failed all the same: the loss itself is not finite,
/// while scaled gradients alone may be. Empty: it has not.
std::string reason_to_fail_at_end(const StepResult& result, const PrecisionSection& precision);

/// "step 7 is skipped, loss scale 65536 -> 32768: the gradient of parameter ... is not finite".
std::string describe_skip(const StepResult& result, const PrecisionSection& precision,
                          const std::optional<NonFiniteGradient>& culprit);

/// " with 5 updates (7 steps were skipped)", of a run of `steps` steps; empty where each step was an update.
std::string describe_updates(std::int64_t steps, std::int64_t updates);

/// The error of a run that has done its `steps` steps without one update, and what to do. `scale`: after
/// them.
std::string describe_no_update(std::int64_t steps, const LossScaleState& scale,
                               const PrecisionSection& precision);

}  // namespace trireme
