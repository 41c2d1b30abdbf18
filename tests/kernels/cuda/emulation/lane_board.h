// The data that the lanes of an emulated warp exchange.
#pragma once

#include <array>
#include <cstdint>

namespace emulation {

/// A lane's word, or its elements of a tensor core product d += a b.
struct LaneBoard {
  std::uint64_t word = 0;
  std::array<std::uint32_t, 4> a = {};
  std::array<std::uint32_t, 2> b = {};
  std::array<float, 4> d = {};
  bool is_done = false;  // lane 0 only: d has been computed for all lanes
};

/// Publishes `own` to the warp and returns the boards of its lanes, valid until the lane's next barrier.
LaneBoard* exchange(const LaneBoard& own);

}  // namespace emulation
