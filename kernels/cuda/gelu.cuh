// GELU (Hendrycks & Gimpel 2016) and its derivative: exact, and with the tanh approximation of GPT-2.
#pragma once

#include <cuda_runtime.h>

#include <cmath>

namespace trireme::cuda {

inline constexpr float kGeluScale = 0.7978845608028654f;  // sqrt(2 / pi)
inline constexpr float kGeluCubic = 0.044715f;

// [Note: gelu by sigmoid] (1 + tanh u) / 2 = sigmoid(2 u). The left side cancels for negative u: at x = -5 it
// keeps two digits, below -5.5 none.
__host__ __device__ inline float gelu_gate(float x) {
  return 1.0f / (1.0f + expf(-2.0f * kGeluScale * (x + kGeluCubic * x * x * x)));
}

__host__ __device__ inline float gelu_tanh(float x) {
  return x * gelu_gate(x);
}

__host__ __device__ inline float gelu_tanh_derivative(float x) {
  const float gate = gelu_gate(x), rest = gelu_gate(-x);  // u is odd in x, so the two sum to 1
  const float slope = kGeluScale * (1.0f + 3.0f * kGeluCubic * x * x);
  return gate + 2.0f * x * gate * rest * slope;
}

/// Phi(x) of the normal distribution.
__host__ __device__ inline float normal_below(float x) {
  return 0.5f * erfcf(-0.70710678118654752f * x);
}

__host__ __device__ inline float gelu(float x) {
  return x * normal_below(x);
}

__host__ __device__ inline float gelu_derivative(float x) {
  constexpr float kDensityAtZero = 0.3989422804014327f;  // 1 / sqrt(2 pi)
  return normal_below(x) + x * kDensityAtZero * expf(-0.5f * x * x);
}

}  // namespace trireme::cuda
