// The cut into pipeline stages of a job that leaves it to us: by counted arithmetic (the default) or by
// measured times, within the memory of a rank.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <string>

#include "launcher/config/config.h"
#include "launcher/train/measured_cut.h"
#include "parallel/comm/communicator.h"

namespace trireme {

/// What parallel.pipeline_cut = "flops" of a resolved job stands for: "flops" itself, which is the fastest
/// cut of all, where that fits or no cut was found that does; else the fastest that fits, listed, with a
/// message that says so.
PipelineCut flops_cut(const JobConfig& config, const CutMemory& memory);

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
