// The job of a checkpoint as `trireme eval` runs it.
#pragma once

#include <span>
#include <string>

#include "launcher/config/config.h"

namespace trireme {

/// The job without the layout and memory of its training: an evaluation has neither gradients nor optimizer
/// state, and any number of ranks can run it. Of [parallel] the device, `zero`, `timeout_s` and
/// `oversubscribe` stay. `overrides` are "section.key=value" as in parse_config(). Throws
/// Error(kInvalidInput) for a key that has no effect on an evaluation, saying why.
JobConfig evaluation_config(const JobConfig& trained, std::span<const std::string> overrides);

}  // namespace trireme
