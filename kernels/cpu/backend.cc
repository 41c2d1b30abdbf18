// The cpu backend's table.
#include "kernels/backend.h"

#include <omp.h>

#include "kernels/cpu/conv/conv_primitives.h"
#include "kernels/cpu/memory/memory_source.h"
#include "kernels/cpu/ops.h"

namespace trireme {
namespace cpu {
namespace {

void synchronize(const KernelContext&) {}

std::shared_ptr<void> make_stream(Device, std::shared_ptr<Allocator>) {
  return std::make_shared<ConvPrimitives>();
}

// Sets the number of threads for the calling thread, from which oneDNN and OpenMP read it.
void bind_thread(const KernelContext& exec) {
  omp_set_num_threads(exec.num_threads);
}

}  // namespace
}  // namespace cpu

const Backend& cpu_backend() {
  static constexpr Backend kBackend{
      .name = "cpu",
      .arithmetic = cpu::arithmetic,
      .make_memory_source = cpu::make_memory_source,
      .make_stream = cpu::make_stream,
      .copy_from_host = cpu::copy_from_host,
      .copy_to_host = cpu::copy_to_host,
      .copy = cpu::copy,
      .fill_zero = cpu::fill_zero,
      .synchronize = cpu::synchronize,
      .bind_thread = cpu::bind_thread,
      .ops = OpTable<AllOps>::filled_by([]<class Args>(Op<Args>) -> Kernel<Args> { return cpu::run_op; }),
  };
  return kBackend;
}

}  // namespace trireme
