// Checks whether a call repeats its bits. Used for engines that cuDNN marks as nondeterministic. The check
// can find a race, but cannot prove that there is none.
#pragma once

#include <cuda_runtime.h>

#include <functional>
#include <vector>

#include "runtime/base/dtype.h"

namespace trireme::cuda {

/// Device memory.
struct CallOutput {
  void* data = nullptr;
  std::size_t bytes = 0;
};

/// Calls `run` five times, each time on zeroed outputs, and compares the bits. False if they differ, or if
/// `run` returns false because it did not run. Waits for the stream.
bool repeats_its_bits(cudaStream_t stream, const std::vector<CallOutput>& outputs,
                      const std::function<bool()>& run);

/// Fills `data` with numbers of both signs between 1/8 and 1, in a 16-bit type, identical on each call. Sums
/// of their products depend on the order. Waits for the stream.
void fill_for_trial(cudaStream_t stream, void* data, std::size_t elems, DType dtype);

}  // namespace trireme::cuda
