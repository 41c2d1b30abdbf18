// Token (and learned position) embedding.
#pragma once

#include "runtime/context.h"

namespace trireme::ops {

/// tokens [B, T] int32, table [V, C], positions [>= T, C] or undefined -> [B, T, C].
/// Token ids are not checked here (they live on the device): the data set is, before step 1.
Tensor embedding(Context& ctx, const Tensor& tokens, ParamRef table, ParamRef positions = {});

}  // namespace trireme::ops
