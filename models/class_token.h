// Extracts the class token of a sequence, which is the first token.
#pragma once

#include "runtime/context.h"
#include "runtime/tensor.h"

namespace trireme {

/// [B, T, C] -> [B, 1, C].
Tensor class_token(Context& ctx, const Tensor& x);

}  // namespace trireme
