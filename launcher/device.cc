#include "launcher/device.h"

#include "kernels/backend.h"
#include "launcher/agreement.h"
#include "parallel/comm/nccl.h"
#include "runtime/base/error.h"
#include "runtime/base/log.h"

namespace trireme {
namespace {

// Why this rank cannot compute on a GPU; empty when it can.
std::string why_no_gpu() {
  try {
    const DeviceReport report = backend_for(DeviceType::kCuda).examine_devices();
    return report.devices.empty() ? report.problem : "";
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kUnsupported) throw;
    return error.what();
  }
}

bool in_this_build(DeviceType type) {
  try {
    return backend_for(type).name != nullptr;
  } catch (const Error&) {
    return false;
  }
}

}  // namespace

RankDevice choose_device(const std::string& wanted, const LaunchEnvironment& launch,
                         const std::shared_ptr<Communicator>& host) {
  const RankDevice cpu{{DeviceType::kCpu, 0}, host};
  if (wanted == "cpu" || (wanted == "auto" && !in_this_build(DeviceType::kCuda))) return cpu;
  const std::string reason = why_no_gpu();
  if (wanted == "auto" && any_rank(*host, !reason.empty())) {
    if (!reason.empty()) log_info("no GPU: " + reason + "; computing on the CPU");
    return cpu;
  }
  RankDevice chosen;
  run_stage(*host, [&] {
    if (!reason.empty()) {
      throw Error(
          ErrorCode::kUnsupported,
          fmt::format("parallel.device = \"cuda\", but {}; use device = \"cpu\" or \"auto\"", reason));
    }
    if (host->size() > 1) {
      chosen.device = gpu_of_local_rank(launch.local_rank, launch.num_local_ranks);
    } else {
      chosen.device = {DeviceType::kCuda, 0};
    }
  });
  chosen.comm = host->size() > 1 ? make_nccl_communicator(host, chosen.device) : host;
  return chosen;
}

}  // namespace trireme
