// Decides whether a run continues after a step with non-finite gradients, and writes the messages.
//
// [Note: schedules count steps] A skipped step makes no update but still counts for warm-up and decay. The
// host sets the learning rate when it enqueues a step, while the decision to skip the previous step may still
// be on the device ([Note: results a step later] in parallel/run/step_records.h). If only updates counted,
// each step would wait for the one before, and the schedule would not end with the last step. A run therefore
// reports how many of its steps were updates, and fails if there were none.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "launcher/config/config.h"
#include "parallel/run/engine.h"
#include "runtime/loss_scaler.h"

namespace trireme {

/// Why a job cannot continue after this step, and what to do; empty: it can. Only fp16 with a loss scale
/// continues after skipped steps, up to a limit of consecutive ones; in other cases the next step would fail
/// too.
std::string reason_to_stop(const StepResult& result, const PrecisionSection& precision);

/// Why a job fails although this was its last step: the loss itself is not finite, not only scaled gradients.
/// Empty: it does not fail.
std::string reason_to_fail_at_end(const StepResult& result, const PrecisionSection& precision);

/// "step 7 is skipped, loss scale 65536 -> 32768: the gradient of parameter ... is not finite".
std::string describe_skip(const StepResult& result, const PrecisionSection& precision,
                          const std::optional<NonFiniteGradient>& culprit);

/// " with 5 updates (7 steps were skipped)" for a run of `steps` steps; empty if all were updates.
std::string describe_updates(std::int64_t steps, std::int64_t updates);

/// The error for a run that finished `steps` steps without an update, and what to do. `scale`: at the end.
std::string describe_no_update(std::int64_t steps, const LossScaleState& scale,
                               const PrecisionSection& precision);

}  // namespace trireme
