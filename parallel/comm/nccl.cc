#include "parallel/comm/nccl.h"

#include <utility>

#include "parallel/comm/nccl_communicator.h"
#include "runtime/base/error.h"

namespace trireme {

Device gpu_of_local_rank(int local_rank, int num_local_ranks, bool may_share) {
  int count = 0;
  const cudaError_t result = cudaGetDeviceCount(&count);
  if (result != cudaSuccess || count == 0) {
    throw Error(
        ErrorCode::kUnsupported,
        fmt::format("device = \"cuda\" needs a GPU, and this machine shows none ({}); use device = \"cpu\"",
                    cudaGetErrorString(result)));
  }
  if (num_local_ranks > count && !may_share) {
    throw Error(
        ErrorCode::kUnsupported,
        fmt::format("{} ranks were started on this machine, which shows {} GPU{}: each rank needs its own "
                    "(CUDA_VISIBLE_DEVICES?); start {} rank{} a machine",
                    num_local_ranks, count, count == 1 ? "" : "s", count, count == 1 ? "" : "s"));
  }
  return {DeviceType::kCuda, local_rank % count};
}

std::shared_ptr<Communicator> make_nccl_communicator(std::shared_ptr<Communicator> host, Device device,
                                                     std::chrono::seconds timeout) {
  TRIREME_CHECK(device.type == DeviceType::kCuda, "NCCL works on GPUs, not on {}", to_string(device));
  check_cuda(cudaSetDevice(device.index), "cudaSetDevice");
  auto job = std::make_shared<NcclJob>(host, device, timeout);
  return std::make_shared<NcclCommunicator>(std::move(job), std::move(host));
}

std::string nccl_version() {
  int version = 0;
  if (ncclGetVersion(&version) != ncclSuccess) return "";
  return fmt::format("{}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

}  // namespace trireme
