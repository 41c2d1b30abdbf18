// The part of a model's parameters that a coordinate on the tensor axis has.
#pragma once

#include "parallel/layout/model_layout.h"

namespace trireme {

/// Coordinate `place` on a tensor axis of `places` ranks, which share the chunks of every block: [Note:
/// tensor chunks].
struct TensorPlace {
  int places = 1;
  int place = 0;
};

/// The coordinate that has a chunk's group; for a group that all coordinates have, the first.
int place_of(const ParamGroup& group, int places);

/// A layout for a rank: its units use the groups of its coordinate. Groups, their order and their counts do
/// not change. Throws Error(kInvalidInput) if a model has no chunks to share, or a block's chunks cannot be
/// shared equally.
ModelLayout for_place(ModelLayout layout, const TensorPlace& place);

}  // namespace trireme
