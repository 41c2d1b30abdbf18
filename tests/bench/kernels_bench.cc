// Rates of the cpu kernels at the shapes of GPT-2 124M (micro-batch 4, context 512) and of nanoGPT's small
// model, compared with oneDNN's sgemm on the same products.
//
//     kernels_bench [--benchmark_filter=Matmul] [--threads=2]
//
// Counters: FLOP/s of products, and B/s of the minimum that a kernel must read and write. Times are CPU time
// of the calling thread, and wall time. On a busy machine compare CPU times of one thread.
#include <cstdlib>
#include <cstring>

#include "tests/bench/kernels_bench.h"

namespace trireme::bench {

int& num_threads() {
  static int threads = 2;
  return threads;
}

}  // namespace trireme::bench

int main(int argc, char** argv) {
  using namespace trireme::bench;
  benchmark::Initialize(&argc, argv);
  for (int i = 1; i < argc; ++i) {
    if (std::strncmp(argv[i], "--threads=", 10) == 0) num_threads() = std::atoi(argv[i] + 10);
  }
  register_products(kExact);
  register_attention(kExact);
  register_recurrent(kExact);
  for (const Mode& mode : kOtherModes) {
    register_products(mode);
    register_attention(mode);
    register_recurrent(mode);
  }
  register_rows();
  register_parameters();
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
}
