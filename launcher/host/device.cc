#include "launcher/host/device.h"

#include <algorithm>
#include <chrono>

#include "kernels/backend.h"
#include "launcher/host/agreement.h"
#include "parallel/comm/nccl.h"
#include "runtime/base/error.h"
#include "runtime/base/log.h"

namespace trireme {
namespace {

struct Gpus {
  int count = 0;
  std::string problem;  // why this rank cannot compute on a GPU; empty: it can
};

Gpus find_gpus() {
  try {
    const DeviceReport report = backend_for(DeviceType::kCuda).examine_devices();
    return {static_cast<int>(report.devices.size()), report.devices.empty() ? report.problem : ""};
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kUnsupported) throw;
    return {.problem = error.what()};
  }
}

}  // namespace

bool in_this_build(DeviceType type) {
  try {
    return backend_for(type).name != nullptr;
  } catch (const Error&) {
    return false;
  }
}

JobConfig counted_on(JobConfig config, DeviceType type) {
  if (!traits(type).host_memory) {  // these take no device memory
    config.data.cache = 0;
    config.checkpoint.background = config.checkpoint.partner = false;
  }
  config.parallel.device = type;
  return config;
}

std::string note_on_device(const JobConfig& config) {
  if (config.parallel.device != DeviceType::kCuda) return "";
  std::string lack;
  if (!in_this_build(DeviceType::kCuda)) {
    lack = "this build has no backend for GPUs (cmake --preset cuda)";
  } else if (const Gpus gpus = find_gpus(); !gpus.problem.empty()) {
    lack = "this machine has none: " + gpus.problem;
  } else {
    return "";
  }
  return fmt::format("parallel.device = \"cuda\": {}, so the job is planned but cannot run here{}", lack,
                     config.parallel.memory_limit > 0
                         ? ""
                         : "; the memory that a rank may use is that of this machine's CPUs");
}

RankDevice choose_device(std::optional<DeviceType> wanted, const LaunchEnvironment& launch,
                         const std::shared_ptr<Communicator>& host, double timeout_s, DeviceSharing sharing) {
  const RankDevice cpu{{DeviceType::kCpu, 0}, host};
  if (wanted == DeviceType::kCpu || (!wanted && !in_this_build(DeviceType::kCuda))) return cpu;
  const auto [num_gpus, reason] = find_gpus();
  if (!wanted && any_rank(*host, !reason.empty())) {
    if (!reason.empty()) log_info("no GPU: " + reason + "; computing on the CPU");
    return cpu;
  }
  RankDevice chosen;
  bool shares = false;
  run_stage(*host, [&] {
    if (!reason.empty()) {
      throw Error(ErrorCode::kUnsupported,
                  "parallel.device = \"cuda\", but {}; use device = \"cpu\" or \"auto\"", reason);
    }
    const RankPlacement placement{.local_rank = launch.local_rank,
                                  .num_local_ranks = launch.num_local_ranks,
                                  .num_gpus = num_gpus,
                                  .may_share = sharing == DeviceSharing::kPermitted};
    chosen.device = gpu_of_rank(placement);
    shares = placement.shares();
  });
  // NCCL needs the settings of all ranks: another machine may have a GPU for each of its ranks.
  if (any_rank(*host, shares)) {
    prepare_environment_for_shared_gpus(launch);
    if (host->rank() == 0) {
      log_warning(
          "parallel.share_device: ranks take turns on a GPU and communicate over sockets, which is slow and "
          "for tests only");
    }
  }
  using Seconds = std::chrono::duration<double>;
  constexpr Seconds kNoLimit = std::chrono::hours(24 * 365), kLater = std::chrono::minutes(1);
  const Seconds timeout = timeout_s > 0 ? std::min(kNoLimit, Seconds(timeout_s) + kLater) : kNoLimit;
  chosen.comm = host->size() > 1 ? make_nccl_communicator(host, chosen.device,
                                                          std::chrono::ceil<std::chrono::seconds>(timeout))
                                 : host;
  return chosen;
}

RankDevice choose_device(const ParallelSection& parallel, const LaunchEnvironment& launch,
                         const std::shared_ptr<Communicator>& host) {
  return choose_device(parallel.device, launch, host, parallel.timeout_s.seconds,
                       parallel.share_device ? DeviceSharing::kPermitted : DeviceSharing::kRefused);
}

}  // namespace trireme
