#include "kernels/cpu/isa/tables.h"
#include "kernels/cpu/isa/vector_math.h"

namespace trireme::cpu::TRIREME_ISA {
namespace {

void epilogue(const EpilogueTile& tile) {
  for (std::int64_t i = 0; i < tile.rows; ++i) {
    float* d = tile.d + i * tile.pitch;
    if (tile.bias != nullptr) {
#pragma omp simd
      for (std::int64_t j = 0; j < tile.cols; ++j) d[j] += tile.bias[j];
    }
    if (tile.pre_activation != nullptr) {
      float* pre = tile.pre_activation + i * tile.pitch;
#pragma omp simd
      for (std::int64_t j = 0; j < tile.cols; ++j) pre[j] = d[j];
    }
    if (tile.gelu) {
#pragma omp simd
      for (std::int64_t j = 0; j < tile.cols; ++j) d[j] = gelu(d[j]);
    }
    if (tile.residual != nullptr) {
      const float* residual = tile.residual + i * tile.residual_pitch;
#pragma omp simd
      for (std::int64_t j = 0; j < tile.cols; ++j) d[j] += residual[j];
    }
  }
}

void gelu_bwd(const float* dy, const float* pre, float* dx, std::int64_t n) {
#pragma omp simd
  for (std::int64_t i = 0; i < n; ++i) dx[i] = dy[i] * gelu_derivative(pre[i]);
}

}  // namespace

const ActivationNumerics activation_numerics{.epilogue = epilogue, .gelu_bwd = gelu_bwd};

}  // namespace trireme::cpu::TRIREME_ISA
