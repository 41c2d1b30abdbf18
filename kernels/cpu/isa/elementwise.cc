#include "kernels/cpu/isa/philox.h"
#include "kernels/cpu/isa/vector.h"
#include "kernels/cpu/numerics.h"

namespace trireme::cpu::TRIREME_ISA {
namespace {

void add(const float* a, const float* b, float* out, std::int64_t n) {
#pragma omp simd
  for (std::int64_t i = 0; i < n; ++i) out[i] = a[i] + b[i];
}

void mul(const float* a, const float* b, float* out, std::int64_t n) {
#pragma omp simd
  for (std::int64_t i = 0; i < n; ++i) out[i] = a[i] * b[i];
}

// kVectors vectors of columns, whose sums stay in registers.
template <int kVectors>
void add_columns(const float* x, std::int64_t rows, std::int64_t pitch, float* sum) {
  Vector sums[kVectors];
#pragma GCC unroll 8
  for (int v = 0; v < kVectors; ++v) sums[v] = load(sum + v * kLanes);
  for (std::int64_t i = 0; i < rows; ++i) {
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) sums[v] += load(x + i * pitch + v * kLanes);
  }
#pragma GCC unroll 8
  for (int v = 0; v < kVectors; ++v) store(sum + v * kLanes, sums[v]);
}

void add_rows(const float* x, std::int64_t rows, std::int64_t pitch, float* sum, std::int64_t n) {
  constexpr int kVectors = 8;
  std::int64_t j = 0;
  for (; j + kVectors * kLanes <= n; j += kVectors * kLanes) {
    add_columns<kVectors>(x + j, rows, pitch, sum + j);
  }
  for (; j + kLanes <= n; j += kLanes) add_columns<1>(x + j, rows, pitch, sum + j);
  for (; j < n; ++j) {
    for (std::int64_t i = 0; i < rows; ++i) sum[j] += x[i * pitch + j];
  }
}

void scale(float* x, float factor, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) x[i] *= factor;
}

void dropout(const DropoutRun& run) {
  constexpr std::int64_t kRun = kKeepRun;
  float keep[kRun];
  const float inverse = 1.0f / (1.0f - run.p);
  for (std::int64_t start = 0; start < run.n; start += kRun) {
    const std::int64_t n = run.n - start < kRun ? run.n - start : kRun;
    philox_keep(run.key, run.sample, run.first_elem + start, n, run.p, keep);
    const float* x = run.x + start;
    float* y = run.y + start;
    if (run.residual != nullptr) {
      const float* residual = run.residual + start;
#pragma omp simd
      for (std::int64_t i = 0; i < n; ++i) y[i] = (keep[i] != 0.0f ? x[i] * inverse : 0.0f) + residual[i];
    } else {
#pragma omp simd
      for (std::int64_t i = 0; i < n; ++i) y[i] = keep[i] != 0.0f ? x[i] * inverse : 0.0f;
    }
  }
}

void squared_norm_blocks(const float* x, float* partials, std::int64_t num_blocks) {
  constexpr std::int64_t kBlock = 1024;
  for (std::int64_t b = 0; b < num_blocks; ++b) {
    const float* block = x + b * kBlock;
    partials[b] = sum_over(kBlock, [&]<class T>(std::int64_t i) {
      const T value = load<T>(block + i);
      return value * value;
    });
  }
}

float squared_error(const float* a, const float* b, std::int64_t n) {
  return sum_over(n, [&]<class T>(std::int64_t i) {
    const T difference = load<T>(a + i) - load<T>(b + i);
    return difference * difference;
  });
}

void scaled_difference(const float* a, const float* b, float factor, float* out, std::int64_t n) {
#pragma omp simd
  for (std::int64_t i = 0; i < n; ++i) out[i] = (a[i] - b[i]) * factor;
}

}  // namespace

const ElementwiseNumerics elementwise_numerics{.add = add,
                                               .mul = mul,
                                               .add_rows = add_rows,
                                               .scale = scale,
                                               .dropout = dropout,
                                               .squared_norm_blocks = squared_norm_blocks,
                                               .squared_error = squared_error,
                                               .scaled_difference = scaled_difference};

}  // namespace trireme::cpu::TRIREME_ISA
