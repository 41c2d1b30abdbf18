// Refuses an address space limit (ulimit -v) that is too small for threads and libraries.
//
// A library that runs out of address space while it starts threads or unwinds an exception kills the process
// with a signal, without a message about the limit. So the program refuses such a limit before it starts
// threads.
#pragma once

#include <cstdint>
#include <optional>

namespace trireme {

struct AddressSpace {
  std::optional<std::int64_t> limit_bytes;  // null: unlimited
  std::int64_t used_bytes = 0;              // by the program and its libraries so far
  int num_threads = 1;                      // maximum number of threads
};
/// The limit and usage of this process. num_threads is the machine's number.
AddressSpace address_space();

/// Throws Error(kInvalidInput) if the limit leaves less than 64 MiB plus 8 MiB per thread for stacks. A job
/// needs more for its memory.
void refuse_small_address_space(const AddressSpace& space);

}  // namespace trireme
