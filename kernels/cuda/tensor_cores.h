// Whether a card has the tensor cores that kernels of ours use. For .cu files: they know what they are
// compiled for.
#pragma once

#include <cuda_runtime.h>

#include "kernels/backend.h"
#include "kernels/cuda/device/check.h"

namespace trireme::cuda {

/// What a card runs is the code of the latest architecture before its own, here as 10 major + minor.
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

/// True where the context's card has those of sm_80 and this build has code for them.
inline bool has_tensor_cores(const KernelContext& exec) {
  int major = 0, minor = 0;
  check(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, exec.device.index),
        "cudaDeviceGetAttribute");
  check(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, exec.device.index),
        "cudaDeviceGetAttribute");
  return newest_code_for(10 * major + minor) >= 80;
}

}  // namespace trireme::cuda
