// A build without cuDNN.
#include "kernels/cuda/cudnn/cudnn_handle.h"

namespace trireme::cuda {

std::shared_ptr<CudnnHandle> make_cudnn_handle(cudaStream_t) {
  return nullptr;
}

std::string cudnn_version() {
  return "";
}

}  // namespace trireme::cuda
