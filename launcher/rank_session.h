// The ranks of this job: those that mpirun started, or this process alone (MPI is not even initialised then).
#pragma once

#include <functional>
#include <memory>

#include "launcher/env.h"
#include "launcher/exit_code.h"
#include "parallel/comm/communicator.h"

namespace trireme {

/// Joins the other ranks and runs `body` on this one. An AgreedError is reported by rank 0 and gives its exit
/// code on all ranks. Any other exception ends the job on all ranks at once, with this rank's message and
/// exit code 1; alone it is passed on to the caller.
ExitCode run_as_rank(const LaunchEnvironment& launch,
                     const std::function<ExitCode(const std::shared_ptr<Communicator>&)>& body);

}  // namespace trireme
