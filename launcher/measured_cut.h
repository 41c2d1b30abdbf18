// parallel.pipeline_cut = "measured": the cut into stages whose slowest one is quickest on this machine.
#pragma once

#include <cstdint>
#include <filesystem>
#include <limits>
#include <memory>
#include <string>

#include "launcher/block_profile.h"
#include "launcher/config.h"
#include "parallel/comm/communicator.h"

namespace trireme {

/// What a cut has to fit into.
struct CutMemory {
  int num_ranks = 1;
  std::int64_t limit_bytes = std::numeric_limits<std::int64_t>::max();  // of a rank
};

/// The cut of a resolved job by the times of `profile`, as parallel.pipeline_cut lists it: "3, 6". The
/// slowest stage (of several chunks a rank: the slowest chunk) is as quick as can be among the cuts whose
/// predicted memory fits; where there are too many cuts into chunks, as far as [Note: exact chunks] says,
/// with a warning where that is not far enough. Where a stage may need less with a block more, as with
/// recompute, and no cut seemed to fit, a choice of cuts between even times and even parameters is tried, not
/// all. Where none is found to fit, the one that comes closest, with a warning that names it; the check of
/// the job's memory then refuses it.
std::string measured_cut(const JobConfig& config, const BlockProfile& profile, const CutMemory& memory);

/// What was measured for this job before, in `file`; else rank 0 measures, and keeps it there.
struct CutMeasurement {
  Device device;
  int threads = 1;
  std::filesystem::path file;
  std::int64_t limit_bytes = std::numeric_limits<std::int64_t>::max();  // of memory, a rank
};

/// Collective. A job with parallel.pipeline_cut = "measured" with rank 0's cut in its place, the same on
/// every rank; any other job as it is. A rank that stalls or dies meanwhile is named (parallel.timeout_s).
JobConfig with_measured_cut(JobConfig config, const std::shared_ptr<Communicator>& comm,
                            const CutMeasurement& measurement);

}  // namespace trireme
