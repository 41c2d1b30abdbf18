// What the lanes of an emulated warp leave for each other.
#pragma once

#include <array>
#include <cstdint>

namespace emulation {

/// A lane's word, or its elements of a product d += a b on tensor cores.
struct LaneBoard {
  std::uint64_t word = 0;
  std::array<std::uint32_t, 4> a = {};
  std::array<std::uint32_t, 2> b = {};
  std::array<float, 4> d = {};
  bool is_done = false;  // of lane 0: d has been computed, for all lanes
};

/// Leaves `own` for the warp and returns the boards of its lanes, which last until the lane's next barrier.
LaneBoard* exchange(const LaneBoard& own);

}  // namespace emulation
