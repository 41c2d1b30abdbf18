#include "kernels/cuda/cudnn/cudnn_handle.h"

#include "kernels/cuda/cudnn/cudnn_plans.h"

namespace trireme::cuda {

CudnnHandle::CudnnHandle(cudaStream_t stream) : stream_(stream) {
  check_cudnn(cudnnCreate(&handle_), "cudnnCreate");
  const cudnnStatus_t status = cudnnSetStream(handle_, stream);
  if (status == CUDNN_STATUS_SUCCESS) return;
  (void)cudnnDestroy(handle_);
  check_cudnn(status, "cudnnSetStream");
}

CudnnHandle::~CudnnHandle() {
  if (cudnnDestroy(handle_) != CUDNN_STATUS_SUCCESS) log_warning("cuda: cudnnDestroy failed");
}

std::shared_ptr<CudnnHandle> make_cudnn_handle(cudaStream_t stream) {
  return std::make_shared<CudnnHandle>(stream);
}

std::string cudnn_version() {
  const std::size_t version = cudnnGetVersion();
  return fmt::format("{}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

}  // namespace trireme::cuda
