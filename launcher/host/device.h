// Chooses the device of a rank from parallel.device, and the communicator for its memory.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "launcher/config/config.h"
#include "launcher/host/env.h"
#include "parallel/comm/communicator.h"

namespace trireme {

struct RankDevice {
  Device device;
  std::shared_ptr<Communicator> comm;
};

/// True if this build has a backend for the device type.
bool in_this_build(DeviceType type);

/// True if several ranks may use one GPU (parallel.share_device).
enum class DeviceSharing : std::uint8_t { kRefused, kPermitted };

/// `wanted`: null means "auto": GPUs if this build and the machines of all ranks have them, else the CPU.
/// Collective over `host`. Throws Error(kUnsupported) with the reason if CUDA is wanted but not available, or
/// if a machine has more ranks than GPUs and sharing is refused. Ranks that share GPUs get NCCL's environment
/// for it, with a warning. `timeout_s` is the job's; 0: no limit. NCCL gets one minute more, so that the
/// ranks' watchdogs, whose messages have more detail, report first.
RankDevice choose_device(std::optional<DeviceType> wanted, const LaunchEnvironment& launch,
                         const std::shared_ptr<Communicator>& host, double timeout_s = 600,
                         DeviceSharing sharing = DeviceSharing::kRefused);

/// choose_device() for the ranks of a job.
RankDevice choose_device(const ParallelSection& parallel, const LaunchEnvironment& launch,
                         const std::shared_ptr<Communicator>& host);

/// The job as its memory counts on such a device: a GPU does not hold what is kept in host memory, and has
/// workspaces of its own.
JobConfig counted_on(JobConfig config, DeviceType type);

/// The caveat of a plan for GPUs made on a machine without any; empty if there is none.
std::string note_on_device(const JobConfig& config);

}  // namespace trireme
