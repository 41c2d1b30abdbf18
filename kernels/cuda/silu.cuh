// SiLU, x sigmoid(x), and its derivative.
#pragma once

#include <cuda_runtime.h>

#include <cmath>

namespace trireme::cuda {

__host__ __device__ inline float silu(float x) {
  return x / (1.0f + expf(-x));
}

/// For finite x; NaN elsewhere.
__host__ __device__ inline float silu_derivative(float x) {
  const float sigmoid = 1.0f / (1.0f + expf(-x)), rest = 1.0f / (1.0f + expf(x));
  return sigmoid + x * sigmoid * rest;
}

}  // namespace trireme::cuda
