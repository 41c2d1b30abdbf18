// The contract of every communicator. Each case is run by all ranks of a world: by local_test on threads, by
// mpi_test under mpirun, by nccl_test on GPUs and by nccl_emulated_test without. recording_test runs those
// that hold without peers, since nobody answers there.
#pragma once

#include <vector>

#include "parallel/comm/communicator.h"
#include "tests/parallel/comm/test_memory.h"

namespace trireme {

struct ConformanceCase {
  const char* name;
  void (*run)(Communicator& comm);
};

/// Data: results of every call from fresh inputs into poisoned memory, odd and zero sizes, all dtypes,
/// messages and tags.
std::vector<ConformanceCase> conformance_data_cases();
/// Behaviour: asynchrony, groups.
std::vector<ConformanceCase> conformance_behaviour_cases();
/// Behaviour that does not depend on what comes back: lifetimes, traffic counts, bad arguments.
std::vector<ConformanceCase> conformance_cases_without_peers();
/// All of them.
std::vector<ConformanceCase> conformance_cases();

/// A sequence of every call, for comparing counts between implementations; messages need two ranks or more.
void run_every_call(Communicator& comm, const TestMemory& memory);

}  // namespace trireme
