// Errors of predicted step times, as a table for a terminal.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "parallel/cluster/training_run.h"

namespace trireme {

/// "mean 4.1 %, median 2.9 %, worst 31.0 % of 200 runs", of absolute values. `errors` are predicted /
/// measured - 1. "no run" if there are none.
std::string error_summary(std::span<const double> errors);

/// Errors by model, cluster size, device, precision and layout, and the worst runs. `errors` and `lines`
/// (rows of the file) have one element per run.
std::string error_tables(std::span<const TrainingRun> runs, std::span<const double> errors,
                         std::span<const std::string> lines);

}  // namespace trireme
