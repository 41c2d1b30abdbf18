// Copies and fills, ordered on the compute stream.
#include <cassert>

#include "kernels/cuda/device/staging_buffers.h"
#include "kernels/cuda/device/stream.h"
#include "kernels/cuda/device/upload_stream.h"
#include "kernels/cuda/ops.h"

namespace trireme::cuda {
namespace {

std::size_t bytes_of(const ConstTensorView& view) {
  return static_cast<std::size_t>(view.num_elems() * size_bytes(view.dtype));
}

}  // namespace

void prepare_uploads(const KernelContext& exec, std::size_t bytes) {
  Stream& stream = stream_of(exec);
  stream.staging_buffers().prepare();
  if (bytes > StagingBuffers::kMaxBytes) stream.upload_stream().prepare(bytes, stream.get());
}

void copy_from_host(const KernelContext& exec, TensorView dst, const void* src) {
  const std::size_t bytes = bytes_of(dst);
  if (bytes == 0) return;
  Stream& stream = stream_of(exec);
  if (bytes <= StagingBuffers::kMaxBytes) {
    stream.staging_buffers().copy_to_device(dst.data, src, bytes, stream.get());
  } else {
    stream.upload_stream().copy_to_device(dst.data, src, bytes, exec.num_threads, stream.get());
  }
}

void copy_to_host(const KernelContext& exec, void* dst, ConstTensorView src) {
  const std::size_t bytes = bytes_of(src);
  const cudaStream_t stream = stream_of(exec).get();
  if (bytes != 0)
    check(cudaMemcpyAsync(dst, src.data, bytes, cudaMemcpyDeviceToHost, stream), "copy to the host");
  check(cudaStreamSynchronize(stream), "copy to the host");
}

void copy(const KernelContext& exec, TensorView dst, ConstTensorView src) {
  assert(dst.dtype == src.dtype && dst.num_elems() == src.num_elems());
  const std::size_t bytes = bytes_of(src);
  if (bytes == 0) return;
  check(cudaMemcpyAsync(dst.data, src.data, bytes, cudaMemcpyDeviceToDevice, stream_of(exec).get()),
        "copy on the card");
}

void fill_zero(const KernelContext& exec, TensorView dst) {
  const std::size_t bytes = bytes_of(dst);
  if (bytes == 0) return;
  check(cudaMemsetAsync(dst.data, 0, bytes, stream_of(exec).get()), "fill_zero");
}

}  // namespace trireme::cuda
