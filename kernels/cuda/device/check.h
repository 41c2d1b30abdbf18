// Checks every call of the CUDA runtime and its libraries. Errors name the op that made the call.
#pragma once

#include <cuda_runtime.h>

#include <source_location>
#include <string>

namespace trireme::cuda {

/// Throws Error unless `result` is success: kOutOfMemory for lack of memory, kUnsupported for a driver that
/// is too old or a card without code in this build, else kRuntime. `what` names the op or the call. An
/// asynchronous failure of an earlier kernel is reported by the next call; the message mentions that.
void check(cudaError_t result, const char* what,
           std::source_location where = std::source_location::current());

/// For destructors: logs instead of throwing.
void check_noexcept(cudaError_t result, const char* what) noexcept;

/// Throws Error(kRuntime) naming `problem` while `stream` is being recorded. Plans must be made earlier, for
/// two reasons. Heuristics may load modules, allocate and wait, none of which can be part of a graph. And a
/// choice made only during recording could differ from the choice of the steps before.
void expect_no_capture(cudaStream_t stream, const std::string& problem);

}  // namespace trireme::cuda
