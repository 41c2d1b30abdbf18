// The part of a model's parameters that a place on the tensor axis has.
#pragma once

#include "parallel/layout/model_layout.h"

namespace trireme {

/// Place `place` of `places` ranks that share the chunks of every block: [Note: tensor chunks].
struct TensorPlace {
  int places = 1;
  int place = 0;
};

/// The place that has a group of a chunk; of what all places have, the first.
int place_of(const ParamGroup& group, int places);

/// A layout for a rank: its units use the groups that its place has. Groups, their order and what they are
/// counted as stay those of the whole model. Throws Error(kInvalidInput) where a model has no chunks to
/// share, or a block's cannot be shared equally.
ModelLayout for_place(ModelLayout layout, const TensorPlace& place);

}  // namespace trireme
