// Adds learned positions to the tokens of an image, and prepends the class token (Dosovitskiy et al. 2021).
#pragma once

#include "runtime/context.h"

namespace trireme::ops {

struct TokenPositionsOptions {
  ParamRef first;      // C elements, or undefined: the token before all others
  ParamRef positions;  // [.., T, C]; T = N + 1, or N without `first`
};

/// Input [B, N, C] -> [first, input] + positions, [B, T, C], in the dtype of `embedding`. Backward saves
/// nothing.
Tensor token_positions(Context& ctx, const Tensor& input, const TokenPositionsOptions& options);

}  // namespace trireme::ops
