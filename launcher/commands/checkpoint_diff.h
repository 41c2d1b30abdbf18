// What differs between two checkpoints: settings, tensors, values.
#pragma once

#include <string>
#include <vector>

#include "runtime/checkpoint/checkpoint_store.h"

namespace trireme {

/// A line for each difference: of steps, of keys that change the mathematics, of tensors that one of them
/// alone has or that have another shape, and of values, with how many differ and by how much at most. Empty:
/// they are the same. Throws Error(kInvalidInput) where one is not of a training run, or a file cannot be
/// read.
std::vector<std::string> describe_differences(const Checkpoint& a, const Checkpoint& b);

}  // namespace trireme
