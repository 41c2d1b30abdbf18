#include "parallel/comm/nccl.h"
#include "runtime/base/error.h"

namespace trireme {

Device gpu_of_rank(const RankPlacement& placement) {
  const int gpus = placement.num_gpus;
  if (placement.shares()) return {DeviceType::kCuda, placement.local_rank % gpus};
  if (placement.num_local_ranks > gpus) {
    throw Error(
        ErrorCode::kUnsupported,
        "{} ranks were started on this machine, which shows {} GPU{}: each rank needs its own "
        "(CUDA_VISIBLE_DEVICES?); start at most {} rank{} a machine, use device = \"cpu\", or let ranks take "
        "turns on a GPU, for tests: parallel.share_device = true",
        placement.num_local_ranks, gpus, gpus == 1 ? "" : "s", gpus, gpus == 1 ? "" : "s");
  }
  return {DeviceType::kCuda, placement.local_rank};
}

}  // namespace trireme
