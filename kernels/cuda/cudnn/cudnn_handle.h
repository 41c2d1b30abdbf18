// cuDNN for one stream: what attention and convolutions of a rank share. Null, and empty, in a build without
// it.
#pragma once

#include <cuda_runtime.h>

#include <memory>
#include <string>

namespace trireme::cuda {

class CudnnHandle;

/// Throws Error(kRuntime) when the library cannot be set up.
std::shared_ptr<CudnnHandle> make_cudnn_handle(cudaStream_t stream);

/// "9.19.0".
std::string cudnn_version();

}  // namespace trireme::cuda
