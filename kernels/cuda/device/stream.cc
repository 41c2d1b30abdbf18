#include "kernels/cuda/device/stream.h"

#include <utility>

#include "kernels/backend_products.h"
#include "kernels/cuda/attention/attention_library.h"
#include "kernels/cuda/conv/conv_library.h"
#include "kernels/cuda/cudnn/cudnn_handle.h"
#include "kernels/cuda/device/slow_paths.h"
#include "kernels/cuda/device/staging_buffers.h"
#include "kernels/cuda/device/upload_stream.h"
#include "kernels/cuda/matmul/matmul_library.h"
#include "runtime/base/error.h"

namespace trireme::cuda {
namespace {

Device current(Device device) {
  int count = 0;
  check(cudaGetDeviceCount(&count), "looking for GPUs");
  if (device.index < 0 || device.index >= count) {
    throw Error(ErrorCode::kUnsupported,
                "there is no {}: {} GPU{} visible to this process (numbered from 0); start at most that "
                "many ranks on this machine, or use device = \"cpu\"",
                to_string(device), count, count == 1 ? " is" : "s are");
  }
  check(cudaSetDevice(device.index), "cudaSetDevice");
  return device;
}

}  // namespace

Stream::Stream(Device device, std::shared_ptr<Allocator> allocator)
    : device_(current(device)),
      allocator_(std::move(allocator)),
      product_choices_(std::make_unique<ProductChoices>()) {}

Stream::~Stream() {
  check_noexcept(cudaStreamSynchronize(stream_.get()), "waiting for the last work of a stream");
}

MatmulLibrary& Stream::matmul_library() {
  if (!matmul_) matmul_ = std::make_unique<MatmulLibrary>(allocator_, *product_choices_);
  return *matmul_;
}

const std::shared_ptr<CudnnHandle>& Stream::cudnn() {
  if (!cudnn_) cudnn_ = make_cudnn_handle(stream_.get());
  return cudnn_;
}

AttentionLibrary& Stream::attention_library() {
  if (!attention_) attention_ = std::make_unique<AttentionLibrary>(cudnn(), allocator_);
  return *attention_;
}

ConvLibrary& Stream::conv_library() {
  if (!conv_) conv_ = std::make_unique<ConvLibrary>(cudnn());
  return *conv_;
}

SlowPaths& Stream::slow_paths() {
  if (!slow_paths_) slow_paths_ = std::make_unique<SlowPaths>();
  return *slow_paths_;
}

StagingBuffers& Stream::staging_buffers() {
  if (!staging_) staging_ = std::make_unique<StagingBuffers>();
  return *staging_;
}

UploadStream& Stream::upload_stream() {
  if (!upload_) upload_ = std::make_unique<UploadStream>(allocator_);
  return *upload_;
}

Stream& stream_of(const KernelContext& exec) {
  TRIREME_CHECK(exec.stream != nullptr, "a context of {} needs a stream: make it with Backend::make_stream",
                to_string(exec.device));
  return *static_cast<Stream*>(exec.stream);
}

std::shared_ptr<void> make_stream(Device device, std::shared_ptr<Allocator> allocator) {
  return std::make_shared<Stream>(device, std::move(allocator));
}

void* native_stream(const KernelContext& exec) {
  return stream_of(exec).get();
}

void synchronize(const KernelContext& exec) {
  check(cudaStreamSynchronize(stream_of(exec).get()), "waiting for the compute stream");
}

void bind_thread(const KernelContext& exec) {
  check(cudaSetDevice(exec.device.index), "cudaSetDevice");
}

ProductChoices& product_choices(const KernelContext& exec) {
  return stream_of(exec).product_choices();
}

}  // namespace trireme::cuda
