// Token (and learned position) embedding.
#pragma once

#include <span>

#include "runtime/context.h"

namespace trireme::ops {

/// tokens [B, T] int32, table [V, C], positions [>= T, C] or undefined -> [B, T, C].
/// The cpu backend throws Error(kInvalidInput) for an id outside of [0, V). On a GPU ids are not checked,
/// which would hold up the host: data sets check what they read.
Tensor embedding(Context& ctx, const Tensor& tokens, ParamRef table, ParamRef positions = {});

/// embedding() with the table in pieces of equal rows, one a tensor chunk, of which a rank reads its own: see
/// [Note: tensor chunks] in runtime/parameter_slice.h. Ids beyond the last piece give zeros; of a sharded
/// sequence, this rank's shard of x. Collective over the tensor axis.
Tensor embedding_in_chunks(Context& ctx, const Tensor& tokens, std::span<const ParamRef> tables,
                           ParamRef positions = {});

}  // namespace trireme::ops
