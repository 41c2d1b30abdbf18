// The cuda backend's table.
#include "kernels/backend.h"

#include "kernels/cuda/device/device_report.h"
#include "kernels/cuda/device/memory_source.h"
#include "kernels/cuda/device/stream.h"
#include "kernels/cuda/ops.h"
#include "kernels/product_workspace.h"

namespace trireme {

const Backend& cuda_backend() {
  static constexpr Backend kBackend{
      .name = "cuda",
      .examine_devices = cuda::examine_devices,
      .free_bytes = cuda::free_bytes,
      .make_memory_source = cuda::make_memory_source,
      .make_stream = cuda::make_stream,
      .make_host_copy = cuda::make_host_copy,
      .native_stream = cuda::native_stream,
      .prepare_uploads = cuda::prepare_uploads,
      .copy_from_host = cuda::copy_from_host,
      .copy_to_host = cuda::copy_to_host,
      .copy = cuda::copy,
      .fill_zero = cuda::fill_zero,
      .synchronize = cuda::synchronize,
      .product_choices = cuda::product_choices,
      .begin_capture = cuda::begin_capture,
      .end_capture = cuda::end_capture,
      .launch_graph = cuda::launch_graph,
      .bind_thread = cuda::bind_thread,
      .ops = OpTable<AllOps>::filled_by([]<class Args>(Op<Args>) -> Kernel<Args> { return cuda::run_op; }),
      .logits_alignment = kCudaLogitsAlignment,
  };
  return kBackend;
}

}  // namespace trireme
