// The contract of every communicator. All ranks of a world run each case: local_test on threads, mpi_test
// under mpirun, nccl_test on GPUs and nccl_emulated_test without. recording_test runs only the cases that
// need no data from peers.
#pragma once

#include <vector>

#include "parallel/comm/communicator.h"
#include "tests/parallel/comm/test_memory.h"

namespace trireme {

struct ConformanceCase {
  const char* name;
  void (*run)(Communicator& comm);
};

/// Data: results of every call from fresh inputs into poisoned memory, with odd and zero sizes, all dtypes,
/// messages and tags.
std::vector<ConformanceCase> conformance_data_cases();
/// Behaviour: asynchrony, groups.
std::vector<ConformanceCase> conformance_behaviour_cases();
/// Behaviour that does not depend on received data: lifetimes, traffic counts, bad arguments.
std::vector<ConformanceCase> conformance_cases_without_peers();
/// All cases.
std::vector<ConformanceCase> conformance_cases();

/// A sequence of every call, for comparing counts between implementations; messages need at least two ranks.
void run_every_call(Communicator& comm, const TestMemory& memory);

}  // namespace trireme
