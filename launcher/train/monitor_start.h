// From a run that is about to begin to what shows it to other programs.
#pragma once

#include <memory>

#include "launcher/observe/run_monitor.h"
#include "launcher/train/run_start.h"

namespace trireme {

/// Rank 0. Null where no key of [log] wants one. Warns of an address that other machines may reach. Throws
/// Error(kInvalidInput) naming the key of a file or a server that cannot be made.
std::unique_ptr<RunMonitor> start_monitor(const TrainingRun& run, const RunSummary& summary);

}  // namespace trireme
