// Selects the card of a rank in test programs over NCCL, one process per rank, and runs the program. Ranks
// take turns on the available cards (see one_card.sh).
#pragma once

#include <cuda_runtime_api.h>

#include "parallel/comm/mpi.h"
#include "parallel/comm/nccl.h"
#include "runtime/base/error.h"

namespace trireme {

inline Device card_of(const MpiSession& session) {
  int count = 0;
  const cudaError_t result = cudaGetDeviceCount(&count);
  TRIREME_CHECK(result == cudaSuccess && count > 0, "this test needs a GPU: {}", cudaGetErrorString(result));
  return {DeviceType::kCuda, session.local_rank() % count};
}

/// The body of main(): calls `run` with this rank's communicator. An error ends all ranks.
template <class Run>
int run_over_nccl(const Run& run, std::chrono::seconds timeout = std::chrono::minutes(10)) {
  const MpiSession session;
  try {
    const Device device = card_of(session);
    return run(make_nccl_communicator(session.world(), device, timeout), device);
  } catch (const std::exception& error) {
    session.world()->abort(Error(ErrorCode::kRuntime, std::string(error.what())));
    return 1;
  }
}

}  // namespace trireme
