// NCCL between the threads of a LocalWorld: every NCCL communicator is a local one. An operation reads its
// input when it is enqueued and writes its output when the compute stream (the default stream) is made to
// wait.
#pragma once

namespace nccl_emulation {

/// From now on the communicators of a rank report an error while operations run, or cannot be set up. -1:
/// none.
void fail_operations_of(int rank);
void fail_setup_of(int rank);

}  // namespace nccl_emulation
