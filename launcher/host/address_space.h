// Refuses a limit on the address space (ulimit -v) that is too small for threads and libraries.
//
// Libraries that run out of address space while they start threads or unwind an exception end the process by
// a signal, without a message that names the limit. So the program refuses such a limit before it starts
// threads.
#pragma once

#include <cstdint>
#include <optional>

namespace trireme {

struct AddressSpace {
  std::optional<std::int64_t> limit_bytes;  // none: unlimited
  std::int64_t used_bytes = 0;              // by the program and its libraries so far
  int num_threads = 1;                      // that it may start
};
/// The limit and use of this process. It may start as many threads as the machine has.
AddressSpace address_space();

/// Throws Error(kInvalidInput) where the limit leaves less than 64 MiB, and 8 MiB for each thread's stack. A
/// job needs more, for its memory.
void refuse_small_address_space(const AddressSpace& space);

}  // namespace trireme
