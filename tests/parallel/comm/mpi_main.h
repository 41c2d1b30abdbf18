// Runs tests on all ranks of an MPI job: registration, output and the end of the job.
#pragma once

#include <functional>

#include "parallel/comm/mpi.h"

namespace trireme {

struct MpiTest {
  std::string suite;
  std::string name;
  std::function<void()> run;
};

/// Registers the tests and runs them on every rank. Rank 0 prints as usual, the others only their failures.
/// An exception ends the job, as other ranks may be waiting. Returns main's exit code.
int run_mpi_tests(int argc, char** argv, const MpiSession& session, const std::vector<MpiTest>& tests);

}  // namespace trireme
