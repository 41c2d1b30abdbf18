// Decides about steps whose gradients were not finite: go on, or stop, and in which words.
#pragma once

#include <optional>
#include <string>

#include "launcher/config/config.h"
#include "parallel/run/engine.h"

namespace trireme {

/// The reason why a job cannot go on after this step, and what to do; empty: it can. Only fp16 with a loss
/// scale goes on after skipped steps, as long as they do not follow one another for ever: in the other cases
/// the next step would be no better.
std::string reason_to_stop(const StepResult& result, const PrecisionSection& precision);

/// "step 7 is skipped, loss scale 65536 -> 32768: the gradient of parameter ... is not finite".
std::string describe_skip(const StepResult& result, const PrecisionSection& precision,
                          const std::optional<NonFiniteGradient>& culprit);

}  // namespace trireme
