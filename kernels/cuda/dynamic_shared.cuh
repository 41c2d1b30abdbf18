// The shared memory whose size a launch chooses.
#pragma once

#include <cuda_runtime.h>

namespace trireme::cuda {

/// Aligned to 16 bytes.
__device__ inline float* dynamic_shared() {
#if defined(__CUDACC__)
  extern __shared__ float4 trireme_dynamic_shared[];
  return reinterpret_cast<float*>(trireme_dynamic_shared);
#else
  return emulated_dynamic_shared();
#endif
}

}  // namespace trireme::cuda
