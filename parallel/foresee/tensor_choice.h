// What a model lets tensor ranks share.
#pragma once

#include "parallel/foresee/predict.h"
#include "runtime/block.h"

namespace trireme {

/// As many chunks as every block that has any can share; 1: there are none.
int tensor_chunks(const BlockList& blocks);

/// True where `tensor` ranks can share the sequence of every block.
bool can_share_sequence(const PlannedJob& job, int tensor);

}  // namespace trireme
