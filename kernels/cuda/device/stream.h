// A rank's state on its card, except memory: the compute stream, and library state that is bound to it.
// KernelContext::stream points to a Stream.
#pragma once

#include <cuda_runtime.h>

#include <memory>

#include "kernels/backend.h"
#include "kernels/cuda/device/handle.h"

namespace trireme::cuda {

class MatmulLibrary;
class AttentionLibrary;
class ConvLibrary;
class CudnnHandle;
class SlowPaths;
class StagingBuffers;
class UploadStream;

class Stream {
 public:
  /// Makes the card current for the calling thread. Throws Error(kUnsupported) without such a card or without
  /// a driver.
  Stream(Device device, std::shared_ptr<Allocator> allocator);
  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  cudaStream_t get() const { return stream_.get(); }
  Device device() const { return device_; }

  // Each is made on first use.
  MatmulLibrary& matmul_library();
  AttentionLibrary& attention_library();
  ConvLibrary& conv_library();
  StagingBuffers& staging_buffers();
  UploadStream& upload_stream();
  SlowPaths& slow_paths();

  ProductChoices& product_choices() { return *product_choices_; }

 private:
  const std::shared_ptr<CudnnHandle>& cudnn();

  const Device device_;
  const std::shared_ptr<Allocator> allocator_;
  StreamHandle stream_;
  const std::unique_ptr<ProductChoices> product_choices_;  // used by matmul_
  std::unique_ptr<MatmulLibrary> matmul_;
  std::shared_ptr<CudnnHandle> cudnn_;  // used by attention_ and conv_
  std::unique_ptr<AttentionLibrary> attention_;
  std::unique_ptr<ConvLibrary> conv_;
  std::unique_ptr<StagingBuffers> staging_;
  std::unique_ptr<UploadStream> upload_;
  std::unique_ptr<SlowPaths> slow_paths_;
};

/// The stream of a context. Throws Error(kInvalidInput) if the context has none.
Stream& stream_of(const KernelContext& exec);

std::shared_ptr<void> make_stream(Device device, std::shared_ptr<Allocator> allocator);
void* native_stream(const KernelContext& exec);
void synchronize(const KernelContext& exec);
void bind_thread(const KernelContext& exec);
ProductChoices& product_choices(const KernelContext& exec);

// Recording and replay: see kernels/backend.h.
void begin_capture(const KernelContext& exec);
std::shared_ptr<void> end_capture(const KernelContext& exec);
void launch_graph(const KernelContext& exec, const std::shared_ptr<void>& graph);

}  // namespace trireme::cuda
