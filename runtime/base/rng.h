// Counter-based random numbers: Philox4x32-10 (Salmon et al., SC 2011).
//
// [Note: random numbers] A draw is a pure function of (seed, step, global sample, block, op, element). It
// does not depend on ranks, micro-batches, threads or the order of evaluation. So backward and recompute draw
// a mask again instead of storing it, and every layout gets the same numbers.
#pragma once

#include <array>
#include <cstdint>

#if defined(__CUDACC__)
#define TRIREME_HOST_DEVICE __host__ __device__
#else
#define TRIREME_HOST_DEVICE
#endif

namespace trireme {

using Philox4 = std::array<std::uint32_t, 4>;

/// The four words of block `counter` under `key`.
TRIREME_HOST_DEVICE constexpr Philox4 philox4x32(Philox4 counter, std::array<std::uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t p0 = std::uint64_t{0xD2511F53u} * counter[0];
    const std::uint64_t p1 = std::uint64_t{0xCD9E8D57u} * counter[2];
    counter = {static_cast<std::uint32_t>(p1 >> 32) ^ counter[1] ^ key[0], static_cast<std::uint32_t>(p1),
               static_cast<std::uint32_t>(p0 >> 32) ^ counter[3] ^ key[1], static_cast<std::uint32_t>(p0)};
    key[0] += 0x9E3779B9u;
    key[1] += 0xBB67AE85u;
  }
  return counter;
}

/// The key shared by all draws of one op in one forward.
struct RngKey {
  std::uint64_t seed = 0;
  std::uint32_t step = 0;
  std::uint16_t block = 0;
  std::uint16_t op = 0;
  const std::uint32_t* device_step = nullptr;  // if set, replaces `step`: recorded work runs in many steps

  /// Words for elements 4*group .. 4*group+3 of global sample `sample`.
  TRIREME_HOST_DEVICE constexpr Philox4 draw(std::uint32_t sample, std::uint32_t group) const {
    return philox4x32(
        {group, sample, device_step != nullptr ? *device_step : step, (std::uint32_t{block} << 16) | op},
        {static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)});
  }
};

/// Uniform in [0, 1) with 24 bits.
TRIREME_HOST_DEVICE constexpr float uniform_from_bits(std::uint32_t bits) {
  return static_cast<float>(bits >> 8) * (1.0f / 16777216.0f);
}

}  // namespace trireme
