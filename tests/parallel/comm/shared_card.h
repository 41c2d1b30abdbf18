// Which card a rank of a test uses: ranks take turns on the cards there are (see one_card.sh).
#pragma once

#include <cuda_runtime_api.h>

#include "parallel/comm/mpi.h"
#include "runtime/base/error.h"

namespace trireme {

inline Device card_of(const MpiSession& session) {
  int count = 0;
  const cudaError_t result = cudaGetDeviceCount(&count);
  TRIREME_CHECK(result == cudaSuccess && count > 0, "this test needs a GPU: {}", cudaGetErrorString(result));
  return {DeviceType::kCuda, session.local_rank() % count};
}

}  // namespace trireme
