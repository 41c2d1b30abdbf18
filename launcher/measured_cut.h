// parallel.pipeline_cut = "measured": the cut into stages whose slowest one is quickest on this machine.
#pragma once

#include <filesystem>
#include <string>

#include "launcher/block_profile.h"
#include "launcher/config.h"
#include "parallel/comm/communicator.h"

namespace trireme {

/// The cut of a resolved job by the times of `profile`, as parallel.pipeline_cut lists it: "3, 6".
std::string measured_cut(const JobConfig& config, const BlockProfile& profile);

/// What was measured for this job before, in `file`; else rank 0 measures, and keeps it there.
struct CutMeasurement {
  Device device;
  int threads = 1;
  std::filesystem::path file;
};

/// Collective. A job with parallel.pipeline_cut = "measured" with rank 0's cut in its place, the same on
/// every rank; any other job as it is.
JobConfig with_measured_cut(JobConfig config, Communicator& comm, const CutMeasurement& measurement);

}  // namespace trireme
