// Starts the monitoring of a run by other programs.
#pragma once

#include <memory>

#include "launcher/observe/run_monitor.h"
#include "launcher/train/run_start.h"

namespace trireme {

/// Rank 0. Null if no key of [log] requests monitoring. Warns about an address that other machines can reach.
/// Throws Error(kInvalidInput) with the key if a file or a server cannot be created.
std::unique_ptr<RunMonitor> start_monitor(const TrainingRun& run, const RunSummary& summary);

}  // namespace trireme
