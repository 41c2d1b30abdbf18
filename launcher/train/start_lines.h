// The summary of a run before its first step, and the lines of its log up to there. Rank 0 only.
#pragma once

#include <string>

#include "launcher/train/run_start.h"
#include "launcher/train/summary.h"

namespace trireme {

RunSummary initial_summary(const TrainingRun& run);

/// Model, ranks, batch and predicted memory in one line.
std::string describe_start(const TrainingRun& run);

/// The choices that were made for this start: products, accumulation, exchange, initial weights.
void log_start(TrainingRun& run);

/// The checkpoint that the run resumes from. Warns of values that differ from the checkpoint's.
void log_resume(TrainingRun& run);

}  // namespace trireme
