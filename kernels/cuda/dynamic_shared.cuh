// Dynamic shared memory, sized at launch.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>

#include "kernels/cuda/launch.cuh"

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

/// The maximum per block.
inline std::size_t max_shared_bytes(const KernelContext& exec) {
  int bytes = 0;
  check(cudaDeviceGetAttribute(&bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, exec.device.index),
        "cudaDeviceGetAttribute");
  return static_cast<std::size_t>(bytes);
}

/// Call before a launch of `kernel` with more than 48 KiB of dynamic shared memory, which a card must permit.
template <class... Params>
void allow_shared_bytes(const char* op, void (*kernel)(Params...), std::size_t bytes) {
  check(cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel),
                             cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(bytes)),
        op);
}

}  // namespace trireme::cuda
