// The parts of a model that tensor ranks can share.
#pragma once

#include "parallel/foresee/predict.h"
#include "runtime/block.h"

namespace trireme {

/// The number of chunks that all blocks with chunks can share; 1: no block has chunks.
int tensor_chunks(const BlockList& blocks);

/// True if `tensor` ranks can share the sequence of every block.
bool can_share_sequence(const PlannedJob& job, int tensor);

}  // namespace trireme
