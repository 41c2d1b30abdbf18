// Every call of the CUDA runtime and its libraries is checked; the error names the op that made it.
#pragma once

#include <cuda_runtime.h>

#include <source_location>

namespace trireme::cuda {

/// Throws Error unless `result` is success: kOutOfMemory for lack of memory, kUnsupported for a driver that
/// is too old or a card that this build has no code for, kRuntime otherwise. `what` names the op or the call.
/// A kernel that failed earlier is reported by whatever comes next; the message says so.
void check(cudaError_t result, const char* what,
           std::source_location where = std::source_location::current());

/// For destructors: logs instead of throwing.
void check_noexcept(cudaError_t result, const char* what) noexcept;

}  // namespace trireme::cuda
