// NCCL between the threads of a LocalWorld. As strict as NCCL: the operations of a stream follow each other,
// each begins and ends when the stream comes to it (in a thread of its own, see StreamThread), a message ends
// when both sides have come to it, and the hosts wait for each other when two ranks, or all, connect for a
// call they have not made before. So what would hang on cards hangs here.
#pragma once

namespace nccl_emulation {

/// From now on the communicators of a rank report an error while operations run, or cannot be set up. -1:
/// none.
void fail_operations_of(int rank);
void fail_setup_of(int rank);

}  // namespace nccl_emulation
