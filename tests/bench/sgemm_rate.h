// The rate of the machine's best library matrix product: what a training step is measured against.
#pragma once

namespace trireme::bench {

/// GFLOP/s of oneDNN's own parallel sgemm on `num_threads` threads: the best of `repetitions` square products
/// of 2048 x 2048 matrices (2 x 2048^3 operations each), after one to warm up.
double measure_sgemm_gflops(int num_threads, int repetitions);

}  // namespace trireme::bench
