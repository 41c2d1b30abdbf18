// Token (and learned position) embedding.
#pragma once

#include "runtime/context.h"

namespace trireme::ops {

/// tokens [B, T] int32, table [V, C], positions [>= T, C] or undefined -> [B, T, C].
/// The cpu backend throws Error(kInvalidInput) for an id outside of [0, V). On a GPU ids are not checked,
/// which would hold up the host: data sets check what they read.
Tensor embedding(Context& ctx, const Tensor& tokens, ParamRef table, ParamRef positions = {});

}  // namespace trireme::ops
