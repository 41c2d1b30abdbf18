// Detects tensor cores and clusters that the native kernels use. For .cu files, which know their target
// architectures.
#pragma once

#include <cuda_runtime.h>

#include "kernels/backend.h"
#include "kernels/cuda/device/check.h"

namespace trireme::cuda {

/// The architecture whose code a card of `capability` runs: the latest one in this build that is not newer
/// than the card. In units of 10 major + minor.
inline int newest_code_for(int capability) {
#if defined(__CUDA_ARCH_LIST__)
  int newest = 0;
  for (const int arch : {__CUDA_ARCH_LIST__}) {
    if (arch / 10 <= capability && arch / 10 > newest) newest = arch / 10;
  }
  return newest;
#else
  return capability;
#endif
}

/// The architecture whose code the context's card runs.
inline int code_capability(const KernelContext& exec) {
  int major = 0, minor = 0;
  check(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, exec.device.index),
        "cudaDeviceGetAttribute");
  check(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, exec.device.index),
        "cudaDeviceGetAttribute");
  return newest_code_for(10 * major + minor);
}

/// True if the context's card has the tensor cores of sm_80 and this build has code for them.
inline bool has_tensor_cores(const KernelContext& exec) {
  return code_capability(exec) >= 80;
}

/// True if the context's card has the clusters of sm_90 and this build has code for them.
inline bool has_clusters(const KernelContext& exec) {
  return code_capability(exec) >= 90;
}

}  // namespace trireme::cuda
