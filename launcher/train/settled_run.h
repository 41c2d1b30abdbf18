// Settles what a job leaves open on the ranks that run it: device, layout, stage cut and accumulation.
#pragma once

#include "launcher/train/run_start.h"

namespace trireme {

/// The place of one rank of a run.
struct RunPlace {
  std::filesystem::path out;  // the output folder; measured times of blocks are kept in it
  LaunchEnvironment launch;
  std::shared_ptr<Communicator> comm;  // of all ranks, over host memory
  Watchdog* watchdog = nullptr;        // may be null
};

/// The options of start_run() for a resolved job. Collective. Throws AgreedError for what all ranks refuse;
/// other errors affect only this rank.
RunOptions settle_run(JobConfig config, const RunPlace& place);

}  // namespace trireme
