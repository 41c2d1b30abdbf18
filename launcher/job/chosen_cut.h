// Chooses the pipeline cut of a job that does not list one: by FLOPs (the default) or by measured times,
// within a rank's memory. See [Note: search of cuts].
#pragma once

#include <cstdint>
#include <filesystem>
#include <limits>
#include <memory>
#include <string>

#include "launcher/config/config.h"
#include "launcher/job/block_profile.h"
#include "parallel/comm/communicator.h"
#include "parallel/layout/stage_map.h"
#include "runtime/base/device.h"

namespace trireme {

/// Limits for a cut.
struct CutMemory {
  int num_ranks = 1;
  std::int64_t limit_bytes = std::numeric_limits<std::int64_t>::max();  // per rank
};

PipelineCut listed(const StageMap& cut);
/// In the form of parallel.pipeline_cut: "3, 6".
std::string as_list(const StageMap& cut);

/// Resolves parallel.pipeline_cut = "flops" of a resolved job. Returns "flops" itself if the fastest cut
/// fits, or if no fitting cut was found. Otherwise returns the fastest fitting cut as a list, and logs that.
PipelineCut flops_cut(const JobConfig& config, const CutMemory& memory);

/// Resolves parallel.pipeline_cut = "measured" with the times of `profile`: the fastest cut that fits. If
/// none fits, returns the one closest to fitting and logs a warning; the memory check then refuses the job.
PipelineCut measured_cut(const JobConfig& config, const BlockProfile& profile, const CutMemory& memory);

/// Returns the profile in `file` if it was measured on the same device and number of threads; otherwise
/// measures one and writes it to `file`.
struct CutMeasurement {
  Device device;
  int threads = 1;
  std::filesystem::path file;
};
BlockProfile known_or_measured(const JobConfig& config, const CutMeasurement& measurement);

struct CutChoice {
  CutMeasurement measurement;                                           // for "measured"
  std::int64_t limit_bytes = std::numeric_limits<std::int64_t>::max();  // memory of this rank
};

/// Collective. The value for parallel.pipeline_cut of a resolved job. For "flops" and "measured", rank 0
/// chooses for the rank with the least memory, and every rank returns its choice; other values are unchanged.
/// A rank that stalls or dies meanwhile is named (parallel.timeout_s).
PipelineCut chosen_cut(const JobConfig& config, const std::shared_ptr<Communicator>& comm,
                       const CutChoice& choice);

}  // namespace trireme
