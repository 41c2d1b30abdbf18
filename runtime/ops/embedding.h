// Token (and learned position) embedding.
#pragma once

#include <span>

#include "runtime/context.h"

namespace trireme::ops {

/// tokens [B, T] int32, table [V, C], positions [>= T, C] or undefined -> [B, T, C].
/// The cpu backend throws Error(kInvalidInput) for an id outside [0, V). On a GPU ids are not checked,
/// because a check would synchronise with the host: data sets check their ids when reading.
Tensor embedding(Context& ctx, const Tensor& tokens, ParamRef table, ParamRef positions = {});

/// embedding() with the table split into pieces of equal rows, one per tensor chunk; each rank reads its own
/// pieces. See [Note: tensor chunks] in runtime/parameter_slice.h. Ids beyond the last piece give zeros. With
/// a sharded sequence, returns this rank's shard. Collective over the tensor axis.
Tensor embedding_in_chunks(Context& ctx, const Tensor& tokens, std::span<const ParamRef> tables,
                           ParamRef positions = {});

}  // namespace trireme::ops
