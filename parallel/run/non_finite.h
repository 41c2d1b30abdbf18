// Finds where a gradient stopped being finite.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "parallel/layout/model_layout.h"
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

/// A parameter as a unit uses it: an index into ModelLayout::uses[unit].
struct UseOfUnit {
  int unit = -1, index = -1;
};

/// The parameter whose gradient is not finite, of several the one that backward comes to first. `gradient` is
/// that of one micro-batch, of a whole bucket: flat, padded with zeros to whole norm blocks. `partials`,
/// fp32, has a number for each norm block of the group and is overwritten. Allocates nothing; waits for the
/// device.
std::optional<UseOfUnit> find_non_finite(const Context& ctx, const ModelLayout& layout, int bucket,
                                         const Tensor& gradient, const Tensor& partials);

}  // namespace trireme
