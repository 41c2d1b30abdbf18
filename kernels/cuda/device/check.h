// Every call of the CUDA runtime and its libraries is checked; the error names the op that made it.
#pragma once

#include <cuda_runtime.h>

#include <source_location>
#include <string>

namespace trireme::cuda {

/// Throws Error unless `result` is success: kOutOfMemory for lack of memory, kUnsupported for a driver that
/// is too old or a card that this build has no code for, kRuntime otherwise. `what` names the op or the call.
/// A kernel that failed earlier is reported by whatever comes next; the message says so.
void check(cudaError_t result, const char* what,
           std::source_location where = std::source_location::current());

/// For destructors: logs instead of throwing.
void check_noexcept(cudaError_t result, const char* what) noexcept;

/// Throws Error(kRuntime) naming `problem` while `stream` records work. Plans are made before: heuristics may
/// load modules, allocate and wait, which is no part of a graph, and a choice that only a recording has seen
/// would be another one than that of the steps before it.
void expect_no_capture(cudaStream_t stream, const std::string& problem);

}  // namespace trireme::cuda
