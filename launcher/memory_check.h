// Will the job fit? Asked of the plan, before anything is allocated.
#pragma once

#include <cstdint>
#include <memory>

#include "launcher/config.h"
#include "parallel/predict.h"

namespace trireme {

/// Bytes that a rank may use: parallel.memory_limit, else its part of the machine's memory.
std::int64_t rank_memory_bytes(const JobConfig& config, int num_local_ranks);

/// Predicts the step of this rank and throws Error(kInvalidInput) when it needs more than `available_bytes`,
/// saying by category what it needs and which micro-batch would fit. Returns the prediction.
StepPrediction check_memory(const JobConfig& config, const std::shared_ptr<const BlockList>& blocks,
                            int num_ranks, int rank, std::int64_t available_bytes);

}  // namespace trireme
