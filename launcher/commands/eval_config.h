// The job of a checkpoint, adapted for `trireme eval`.
#pragma once

#include <span>
#include <string>

#include "launcher/config/config.h"

namespace trireme {

/// The job without its training layout and memory settings: an evaluation has no gradients and no optimizer
/// state, and any number of ranks can run it. From [parallel] only the device, `zero`, `timeout_s` and
/// `oversubscribe` are kept. `overrides` are "section.key=value" as in parse_config(). Throws
/// Error(kInvalidInput) with the reason for a key without effect on an evaluation.
JobConfig evaluation_config(const JobConfig& trained, std::span<const std::string> overrides);

}  // namespace trireme
