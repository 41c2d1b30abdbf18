// NCCL between the threads of a LocalWorld. As strict as NCCL: the operations of a stream follow each other,
// each begins and ends when the stream comes to it (in a thread of its own, see StreamThread), a message ends
// when both sides have come to it, and the hosts wait for each other when two ranks, or all, connect for a
// call they have not made before. So what would hang on cards hangs here. Only communicators that do not
// block are made: a call that connects returns, and ncclCommGetAsyncError says when it is done.
#pragma once

namespace nccl_emulation {

/// From now on the communicators of a rank report an error while operations run, or cannot be set up. -1:
/// none.
void fail_operations_of(int rank);
void fail_setup_of(int rank);
/// From now on no communicator is set up: one rank has not come.
void never_set_up(bool on);
/// Uses of a communicator that NCCL forbids: by two threads at once, and after it was destroyed or aborted.
int misuses();

}  // namespace nccl_emulation
