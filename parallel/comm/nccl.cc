#include "parallel/comm/nccl.h"

#include <utility>

#include "parallel/comm/nccl_communicator.h"
#include "runtime/base/error.h"

namespace trireme {

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
