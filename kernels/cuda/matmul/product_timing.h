// Measures the algorithms of one product on the card.
#pragma once

#include <cuda_runtime.h>

#include <functional>
#include <vector>

namespace trireme::cuda {

/// Microseconds of one run of each of `num` algorithms; 0 if refused. Each value is the median of several
/// bursts. The algorithms take turns, so that clock changes affect all of them. `run(i)` enqueues one run of
/// algorithm i on `stream`, or returns false if it is refused. Waits for the stream.
std::vector<double> times_in_turns(cudaStream_t stream, int num, const std::function<bool(int)>& run);

}  // namespace trireme::cuda
