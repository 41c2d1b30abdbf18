// Will the job fit, and if not, what would make it? Asked of plans, before anything is allocated.
//
// [Note: order of remedies] Changes are tried from cheap to dear, and the first that fits is told: a larger
// parallel.zero (more messages), then recompute (a third more work; longer segments first), then a smaller
// train.micro_batch (matmuls that fill the device less), then more ranks (somebody has to pay for them). A
// dearer change is tried together with the cheaper ones. None of them changes the results, except that a
// different micro-batch rounds differently.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "launcher/config.h"
#include "parallel/predict.h"
#include "runtime/base/device.h"

namespace trireme {

struct MemoryLimit {
  std::int64_t bytes = 0;
  std::string source;  // "parallel.memory_limit", "this machine, for each of 2 ranks"
};

/// What a rank may use: parallel.memory_limit, else the memory of its device or its part of the machine's.
MemoryLimit memory_limit(const JobConfig& config, Device device, int num_local_ranks);

/// A changed job that fits.
struct Remedy {
  JobConfig config;
  int num_ranks = 1;
  std::vector<std::string> changes;  // "parallel.zero = 2", "4 ranks"
  std::int64_t peak_bytes = 0;       // of a rank
};

/// Where even the smallest layout fails.
struct TooLargeBlock {
  std::string block;             // the one that runs when most is alive
  std::string action;            // "Backward unit 3 (head) micro-batch 0"
  std::int64_t peak_bytes = 0;   // of the rank at that moment
  std::int64_t block_bytes = 0;  // of them, activations and exchanged buffers
  std::vector<std::string> changes;
};

struct MemoryFit {
  MemoryLimit limit;
  std::int64_t peak_bytes = 0;  // needed
  MemoryCounts at_peak;
  std::string action;  // when: "Backward unit 3 (head) micro-batch 0"
  std::optional<Remedy> remedy;
  std::optional<TooLargeBlock> too_large;  // where nothing fits

  bool fits() const { return peak_bytes <= limit.bytes; }
};

/// Compares the prediction of a rank of a job with its limit. Searches a remedy when it does not fit.
MemoryFit fit_memory(const JobConfig& config, const std::shared_ptr<const BlockList>& blocks,
                     const StepPrediction& prediction, int num_ranks, const MemoryLimit& limit);

/// One sentence: "fits: ..." or "the job does not fit: ...; with parallel.zero = 2 it would: 1.20 GiB".
std::string to_text(const MemoryFit& fit);

/// Predicts the step of this rank. Throws Error(kInvalidInput) with to_text() when it does not fit.
StepPrediction check_memory(const JobConfig& config, const std::shared_ptr<const BlockList>& blocks,
                            int num_ranks, int rank, const MemoryLimit& limit);

}  // namespace trireme
