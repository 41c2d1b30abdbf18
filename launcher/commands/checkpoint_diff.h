// Compares two checkpoints: settings, tensors, values.
#pragma once

#include <string>
#include <vector>

#include "runtime/checkpoint/checkpoint_store.h"

namespace trireme {

/// One line per difference: steps, keys that change the mathematics, tensors that are missing or have another
/// shape, and values, with their number and the largest difference. Empty: equal. Throws Error(kInvalidInput)
/// if one is not from a training run, or a file cannot be read.
std::vector<std::string> describe_differences(const Checkpoint& a, const Checkpoint& b);

}  // namespace trireme
