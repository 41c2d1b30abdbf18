// Converts an RngKey to the PhiloxKey of kernels/cpu/numerics.h, which all draws of one op share.
#pragma once

#include "kernels/cpu/numerics.h"
#include "runtime/base/rng.h"

namespace trireme::cpu {

inline PhiloxKey philox_key(const RngKey& rng) {
  return {.key = {static_cast<std::uint32_t>(rng.seed), static_cast<std::uint32_t>(rng.seed >> 32)},
          .step = rng.step,
          .block_op = (std::uint32_t{rng.block} << 16) | rng.op};
}

}  // namespace trireme::cpu
