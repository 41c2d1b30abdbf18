// The shards of flat groups over the data axis, and what each ZeRO stage shards. Stage 3 is FSDP (fully
// sharded).
#pragma once

#include <cstdint>

#include "kernels/backend.h"

namespace trireme {

/// ZeRO (Rajbhandari et al. 2020): state of which each data rank keeps only a piece. Each stage includes the
/// previous ones.
enum class ZeroStage : std::uint8_t {
  kNone,        // 0: nothing
  kOptimizer,   // 1: masters and optimizer state
  kGradients,   // 2: and gradients
  kParameters,  // 3: and working copies, gathered around each use
};

/// True for state that is sharded over the data ranks.
struct ShardedState {
  bool optimizer = false, gradients = false, parameters = false;
};
constexpr ShardedState sharded_by(ZeroStage stage) {
  return {.optimizer = stage >= ZeroStage::kOptimizer,
          .gradients = stage >= ZeroStage::kGradients,
          .parameters = stage >= ZeroStage::kParameters};
}

/// `ranks` equal pieces of whole norm blocks (see [Note: gradient norm]); the last pieces may be padding.
struct Sharding {
  int ranks = 1;
  int rank = 0;

  /// Elements of a group of `num_elems` with padding; piece(): elements of one piece.
  std::int64_t padded(std::int64_t num_elems) const {
    const std::int64_t unit = kNormBlock * ranks;
    return (num_elems + unit - 1) / unit * unit;
  }
  std::int64_t piece(std::int64_t num_elems) const { return padded(num_elems) / ranks; }
  /// First element of this rank's piece.
  std::int64_t first(std::int64_t num_elems) const { return piece(num_elems) * rank; }
};

}  // namespace trireme
