// The memory that a rank may use, and the refusal of a job that does not fit: with keys that would make it
// fit.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "launcher/config/config.h"
#include "parallel/foresee/memory_fit.h"
#include "runtime/base/device.h"

namespace trireme {

struct MemoryLimit {
  std::int64_t bytes = 0;
  std::string source;       // "parallel.memory_limit", "this machine, for each of 2 ranks"
  int ranks_a_machine = 0;  // that share a machine's memory with this limit each; 0 where ranks share none
};

/// The memory that a rank may use: parallel.memory_limit, else the memory of its device or its part of the
/// machine's.
MemoryLimit memory_limit(const JobConfig& config, Device device, int num_local_ranks);

/// The outcome of a fit, and what its messages name.
struct JobFit : MemoryFit {
  MemoryLimit limit;
  int num_ranks = 1;
  std::int64_t global_batch = 1;
};

/// Compares the prediction of a rank of a job with its limit. Searches a remedy when it does not fit.
JobFit fit_memory(const PlannedJob& job, const StepPrediction& prediction, const MemoryLimit& limit);

/// One sentence: "fits: ..." or "the job does not fit: ...; with parallel.zero = 2 it would: 1.20 GiB".
std::string to_text(const JobFit& fit);

/// Of a job that does not fit, what would help: "with parallel.zero = 2 it fits, in 1.20 GiB a rank"; or that
/// nothing does, and what needs most.
std::string describe_remedy(const JobFit& fit);

/// Predicts the step of this rank. Throws Error(kInvalidInput) with to_text() when it does not fit.
StepPrediction check_memory(const JobConfig& config, const std::shared_ptr<const BlockList>& blocks,
                            int num_ranks, int rank, const MemoryLimit& limit);

}  // namespace trireme
