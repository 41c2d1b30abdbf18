// Where a gradient stopped being finite.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "parallel/model_layout.h"
#include "runtime/block.h"
#include "runtime/context.h"

namespace trireme {

/// The first one of a step: of its first micro-batch that has one, the first in the order of backward.
struct NonFiniteGradient {
  std::string block;              // whose backward computed it
  std::string parameter;          // full name; of a tied one, the owner's
  std::int64_t micro_batch = -1;  // of the global batch. -1: of each it was finite, and their sum is not
  int rank = -1;                  // that computed it; -1 with the sum
};

/// "parameter 'head.weight' of block 'head', micro-batch 3, on rank 1".
std::string to_string(const NonFiniteGradient& found);

/// The last parameter of a block (the first that its backward comes to) whose gradient is not finite, as an
/// index into the block's parameters, or -1. `leaves` by bucket of the block, flat, padded with zeros to
/// whole norm blocks. Waits for the device.
int find_non_finite(const Context& ctx, const ModelLayout& layout, int unit, std::span<const Tensor> leaves);

}  // namespace trireme
