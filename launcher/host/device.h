// The device of a rank: from parallel.device to a Device and the communicator of its memory.
#pragma once

#include <memory>
#include <string>

#include "launcher/config/config.h"
#include "launcher/host/env.h"
#include "parallel/comm/communicator.h"

namespace trireme {

struct RankDevice {
  Device device;
  std::shared_ptr<Communicator> comm;
};

/// Whether this build has a backend for the device type.
bool in_this_build(DeviceType type);

/// `wanted` is "cpu", "cuda" or "auto": GPUs where this build and all ranks' machines have them, else the
/// CPU. Collective over `host`. Throws Error(kUnsupported) saying what is missing when "cuda" is wanted and
/// cannot be had, and when ranks outnumber the GPUs of their machine. `timeout_s` is that of the job: what
/// NCCL is given is a minute more, so that the ranks' own watchdogs, who know more, speak first; 0: no limit.
RankDevice choose_device(std::optional<DeviceType> wanted, const LaunchEnvironment& launch,
                         const std::shared_ptr<Communicator>& host, double timeout_s = 600);

/// The job as far as the memory of such a device goes: a GPU does not hold what is kept in the host's, and
/// has workspaces of its own.
JobConfig counted_on(JobConfig config, DeviceType type);

/// The caveat of a plan for GPUs that is made without any; empty where there is none.
std::string note_on_device(const JobConfig& config);

}  // namespace trireme
