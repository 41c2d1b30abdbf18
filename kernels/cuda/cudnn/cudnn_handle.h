// cuDNN for one stream, shared by a rank's attention and convolutions. In a build without cuDNN the handle is
// null and the version empty.
#pragma once

#include <cuda_runtime.h>

#include <memory>
#include <string>

namespace trireme::cuda {

class CudnnHandle;

/// Throws Error(kRuntime) when the library cannot be initialised.
std::shared_ptr<CudnnHandle> make_cudnn_handle(cudaStream_t stream);

/// "9.19.0".
std::string cudnn_version();

}  // namespace trireme::cuda
