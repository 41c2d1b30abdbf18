// The cut into pipeline stages of a job that leaves it to us: by counted arithmetic (the default) or by
// measured times, within the memory of a rank. See [Note: search of cuts].
#pragma once

#include <cstdint>
#include <filesystem>
#include <limits>
#include <memory>
#include <string>

#include "launcher/config/config.h"
#include "launcher/report/block_profile.h"
#include "parallel/comm/communicator.h"
#include "parallel/layout/stage_map.h"
#include "runtime/base/device.h"

namespace trireme {

/// The limits of a cut.
struct CutMemory {
  int num_ranks = 1;
  std::int64_t limit_bytes = std::numeric_limits<std::int64_t>::max();  // of a rank
};

PipelineCut listed(const StageMap& cut);
/// As parallel.pipeline_cut lists it: "3, 6".
std::string as_list(const StageMap& cut);

/// Resolves parallel.pipeline_cut = "flops" of a resolved job: "flops" itself, which is the fastest
/// cut of all, where that fits or no cut was found that does; else the fastest that fits, listed, with a
/// message that says so.
PipelineCut flops_cut(const JobConfig& config, const CutMemory& memory);

/// Resolves parallel.pipeline_cut = "measured" by the times of `profile`: the fastest cut that fits.
/// If none is found to fit, the one that came closest, with a warning that names it; the check of the
/// job's memory then refuses it.
PipelineCut measured_cut(const JobConfig& config, const BlockProfile& profile, const CutMemory& memory);

/// The profile measured for a job before, in `file`, if it was measured on `device` with as many threads;
/// else measures, and keeps it there.
struct CutMeasurement {
  Device device;
  int threads = 1;
  std::filesystem::path file;
};
BlockProfile known_or_measured(const JobConfig& config, const CutMeasurement& measurement);

struct CutChoice {
  CutMeasurement measurement;                                           // of "measured"
  std::int64_t limit_bytes = std::numeric_limits<std::int64_t>::max();  // of memory, of this rank
};

/// Collective. What to set parallel.pipeline_cut of a resolved job to: for "flops" and "measured" what rank 0
/// finds for the rank with the least memory, the same on every rank; any other value as it is. A rank that
/// stalls or dies meanwhile is named (parallel.timeout_s).
PipelineCut chosen_cut(const JobConfig& config, const std::shared_ptr<Communicator>& comm,
                       const CutChoice& choice);

}  // namespace trireme
