// Times of the algorithms of one product on the card.
#pragma once

#include <cuda_runtime.h>

#include <functional>
#include <vector>

namespace trireme::cuda {

/// Microseconds of one run of each of `num` algorithms: the median of several bursts, which the algorithms
/// play in turns, so that a clock that changes meets all of them. 0: refused. `run(i)` enqueues one run of
/// the i-th on `stream`, or returns false for what is refused. Waits for the stream.
std::vector<double> times_in_turns(cudaStream_t stream, int num, const std::function<bool(int)>& run);

}  // namespace trireme::cuda
