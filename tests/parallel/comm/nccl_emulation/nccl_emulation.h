// NCCL between the threads of a LocalWorld. As strict as NCCL: the operations of a stream run in order, and
// each runs when the stream reaches it (on a separate thread, see StreamThread). A message ends when both
// sides have reached it. Hosts wait for each other when two ranks, or all, connect for a call that they have
// not made before. So code that would hang on cards hangs here. Supports nonblocking communicators only: a
// call that connects returns at once, and ncclCommGetAsyncError reports when it is done.
#pragma once

namespace nccl_emulation {

/// Makes the communicators of a rank report an error while operations run, or fail to be set up. -1: none.
void fail_operations_of(int rank);
void fail_setup_of(int rank);
/// While on, no communicator can be set up, as if one rank were missing.
void never_set_up(bool on);
/// The number of forbidden uses of communicators: by two threads at once, and after destruction or abort.
int misuses();

}  // namespace nccl_emulation
