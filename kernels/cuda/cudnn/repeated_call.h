// Whether a call gives the same bits each time: asked of engines that are marked as nondeterministic and may
// be taken all the same. It shows what a race does, not that there is none.
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

/// Calls `run` five times, each on outputs that are zero, and compares their bits. False when `run` says that
/// it has not run. Waits for the stream.
bool repeats_its_bits(cudaStream_t stream, const std::vector<CallOutput>& outputs,
                      const std::function<bool()>& run);

/// Numbers of both signs between 1/8 and 1, the same ones each time, of a 16-bit type: sums of their products
/// depend on the order. Waits for the stream.
void fill_for_trial(cudaStream_t stream, void* data, std::size_t elems, DType dtype);

}  // namespace trireme::cuda
