// The buffer through which state moves between two steps.
//
// [Note: staging] An exchange of averages copies state through a buffer that fits into what the memory limit
// leaves. A step holds activations and losses beside the state, so if a step fits, the smallest buffer fits
// too. A step alone therefore determines how much memory a run needs, and a job that gets exactly its
// predicted peak can evaluate. Saving a checkpoint needs no such buffer.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

#include "runtime/base/allocator.h"

namespace trireme {

/// fp32 elements of a staging buffer: at most `most`, and no more than `limit_bytes` leaves free now. At
/// least one unit of the allocator, even if it does not fit.
inline std::int64_t staging_elems(const Allocator& allocator, std::optional<std::int64_t> limit_bytes,
                                  std::int64_t most) {
  constexpr auto kUnit = static_cast<std::int64_t>(Allocator::kAlignment / sizeof(float));
  if (!limit_bytes) return most;
  const std::int64_t free_bytes = *limit_bytes - allocator.stats().current.total();
  const std::int64_t units = free_bytes / static_cast<std::int64_t>(Allocator::kAlignment);
  return std::min(most, std::max<std::int64_t>(units, 1) * kUnit);
}

}  // namespace trireme
