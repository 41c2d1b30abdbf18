// The tokens that have targets, for heads whose loss counts few of all tokens.
#pragma once

#include "runtime/context.h"

namespace trireme::ops {

struct TargetRows {
  Tensor x;        // [B K, C]
  Tensor targets;  // [B K] int32; -1 where a sample has fewer than K targets
};

/// x [B, T, C], targets [B, T] int32, positions [B, K] int32: the tokens of each sample with targets, filled
/// up with -1, see Batch::target_positions. Rows without a token are 0. The gradient of all other tokens is
/// 0.
TargetRows gather_targets(Context& ctx, const Tensor& x, const Tensor& targets, const Tensor& positions);

}  // namespace trireme::ops
