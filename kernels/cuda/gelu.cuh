// GELU with the tanh approximation and its derivative (Hendrycks & Gimpel 2016), as in GPT-2.
#pragma once

#include <cuda_runtime.h>

#include <cmath>

namespace trireme::cuda {

inline constexpr float kGeluScale = 0.7978845608028654f;  // sqrt(2 / pi)
inline constexpr float kGeluCubic = 0.044715f;

__host__ __device__ inline float gelu(float x) {
  return 0.5f * x * (1.0f + tanhf(kGeluScale * (x + kGeluCubic * x * x * x)));
}

__host__ __device__ inline float gelu_derivative(float x) {
  const float t = tanhf(kGeluScale * (x + kGeluCubic * x * x * x));
  const float slope = kGeluScale * (1.0f + 3.0f * kGeluCubic * x * x);
  return 0.5f * (1.0f + t) + 0.5f * x * (1.0f - t * t) * slope;
}

}  // namespace trireme::cuda
