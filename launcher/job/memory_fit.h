// The memory limit of a rank, and the refusal of a job that does not fit, with keys that would make it fit.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "launcher/config/config.h"
#include "launcher/state/initial_weights.h"
#include "parallel/foresee/memory_fit.h"
#include "runtime/base/device.h"

namespace trireme {

struct MemoryLimit {
  std::int64_t bytes = 0;
  std::string source;       // "parallel.memory_limit", "this machine, for each of 2 ranks"
  int ranks_a_machine = 0;  // ranks that share a machine's memory with this limit each; 0: no sharing
};

/// A rank's memory limit: parallel.memory_limit, else its device's memory or its share of the machine's.
MemoryLimit memory_limit(const JobConfig& config, Device device, int num_local_ranks);

/// The result of a fit, with the values for its messages.
struct JobFit : MemoryFit {
  MemoryLimit limit;
  int num_ranks = 1;
  std::int64_t global_batch = 1;
};

/// Compares the predicted memory of a rank with its limit. Searches for a remedy if it does not fit.
JobFit fit_memory(const PlannedJob& job, const StepPrediction& prediction, const MemoryLimit& limit);

/// One sentence: "fits: ..." or "the job does not fit: ...; with parallel.zero = 2 it would: 1.20 GiB".
std::string to_text(const JobFit& fit);

/// A remedy for a job that does not fit: "with parallel.zero = 2 it fits, in 1.20 GiB a rank". If there is
/// none, a text that says so and names the largest consumer.
std::string describe_remedy(const JobFit& fit);

/// Predicts this rank's step. Throws Error(kInvalidInput) with to_text() if it does not fit.
StepPrediction check_memory(const JobConfig& config, const std::shared_ptr<const BlockList>& blocks,
                            int num_ranks, int rank, const MemoryLimit& limit);

}  // namespace trireme
