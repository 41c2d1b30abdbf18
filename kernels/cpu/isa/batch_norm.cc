// Statistics and affine maps of channels: rows are pixels, columns channels, and sums go down the columns.
#include "kernels/cpu/isa/tables.h"

namespace trireme::cpu::TRIREME_ISA {
namespace {

// sums[c] = sum over rows of term(row, c). Four rows at a time, so that the sums are seldom read and written.
template <class Term>
inline void sum_columns(std::int64_t rows, std::int64_t cols, float* __restrict sums, const Term& term) {
  __builtin_memset(sums, 0, static_cast<std::size_t>(cols) * sizeof(float));
  std::int64_t m = 0;
  for (; m + 4 <= rows; m += 4) {
#pragma omp simd
    for (std::int64_t c = 0; c < cols; ++c) {
      sums[c] += (term(m, c) + term(m + 1, c)) + (term(m + 2, c) + term(m + 3, c));
    }
  }
  for (; m < rows; ++m) {
#pragma omp simd
    for (std::int64_t c = 0; c < cols; ++c) sums[c] += term(m, c);
  }
}

// The mean is taken first and the squares about it: one pass would lose the digits of a large mean.
void moments(const ChannelMoments& p) {
  const float* __restrict x = p.x;
  const std::int64_t cols = p.cols;
  float* __restrict mean = p.mean;
  sum_columns(p.rows, cols, mean, [=](std::int64_t m, std::int64_t c) { return x[m * cols + c]; });
  const float inverse = 1.0f / static_cast<float>(p.rows);
#pragma omp simd
  for (std::int64_t c = 0; c < cols; ++c) mean[c] *= inverse;
  sum_columns(p.rows, cols, p.m2, [=](std::int64_t m, std::int64_t c) {
    const float centered = x[m * cols + c] - mean[c];
    return centered * centered;
  });
}

// NaN passes.
inline float rectified(float x) {
  return x < 0.0f ? 0.0f : x;
}

void affine(const ChannelAffine& p) {
  const std::int64_t cols = p.cols;
  for (std::int64_t m = 0; m < p.rows; ++m) {
    const float *x = p.x + m * cols, *residual = p.residual != nullptr ? p.residual + m * cols : nullptr;
    float* y = p.y + m * cols;
    if (residual != nullptr && p.rectify) {
#pragma omp simd
      for (std::int64_t c = 0; c < cols; ++c) y[c] = rectified(x[c] * p.scale[c] + p.shift[c] + residual[c]);
    } else if (residual != nullptr) {
#pragma omp simd
      for (std::int64_t c = 0; c < cols; ++c) y[c] = x[c] * p.scale[c] + p.shift[c] + residual[c];
    } else if (p.rectify) {
#pragma omp simd
      for (std::int64_t c = 0; c < cols; ++c) y[c] = rectified(x[c] * p.scale[c] + p.shift[c]);
    } else {
#pragma omp simd
      for (std::int64_t c = 0; c < cols; ++c) y[c] = x[c] * p.scale[c] + p.shift[c];
    }
  }
}

// Calls body(g) with the function of (element, column) that gives the gradient behind the rectifier.
template <class Body>
inline void with_gradient(const ChannelGradients& p, const Body& body) {
  const float *dy = p.dy, *x = p.x, *y = p.y, *scale = p.scale, *shift = p.shift;
  if (p.passes == Passes::kFromY) {
    body([=](std::int64_t i, std::int64_t) { return y[i] <= 0.0f ? 0.0f : dy[i]; });
  } else if (p.passes == Passes::kFromX) {
    body([=](std::int64_t i, std::int64_t c) { return x[i] * scale[c] + shift[c] <= 0.0f ? 0.0f : dy[i]; });
  } else {
    body([=](std::int64_t i, std::int64_t) { return dy[i]; });
  }
}

void sums(const ChannelGradients& p) {
  const std::int64_t cols = p.cols;
  const float *x = p.x, *mean = p.mean;
  float* __restrict sum = p.sum, * __restrict sum_x = p.sum_x;
  __builtin_memset(sum, 0, static_cast<std::size_t>(cols) * sizeof(float));
  __builtin_memset(sum_x, 0, static_cast<std::size_t>(cols) * sizeof(float));
  with_gradient(p, [=](const auto& g) {
    std::int64_t m = 0;
    for (; m + 2 <= p.rows; m += 2) {
      const std::int64_t first = m * cols, second = first + cols;
#pragma omp simd
      for (std::int64_t c = 0; c < cols; ++c) {
        const float g0 = g(first + c, c), g1 = g(second + c, c);
        sum[c] += g0 + g1;
        sum_x[c] += g0 * (x[first + c] - mean[c]) + g1 * (x[second + c] - mean[c]);
      }
    }
    for (; m < p.rows; ++m) {
      const std::int64_t first = m * cols;
#pragma omp simd
      for (std::int64_t c = 0; c < cols; ++c) {
        const float g0 = g(first + c, c);
        sum[c] += g0;
        sum_x[c] += g0 * (x[first + c] - mean[c]);
      }
    }
  });
}

void backward(const ChannelBackward& p) {
  const std::int64_t cols = p.in.cols;
  const float *x = p.in.x, *mean = p.in.mean, *of_g = p.of_g, *of_x = p.of_x, *constant = p.constant;
  float *dx = p.dx, *dresidual = p.dresidual;
  with_gradient(p.in, [=](const auto& g) {
    for (std::int64_t m = 0; m < p.in.rows; ++m) {
      const std::int64_t row = m * cols;
      if (dresidual != nullptr) {
#pragma omp simd
        for (std::int64_t c = 0; c < cols; ++c) {
          const float gradient = g(row + c, c), centered = x[row + c] - mean[c];
          dresidual[row + c] = gradient;
          dx[row + c] = of_g[c] * gradient + of_x[c] * centered + constant[c];
        }
      } else {
#pragma omp simd
        for (std::int64_t c = 0; c < cols; ++c) {
          dx[row + c] = of_g[c] * g(row + c, c) + of_x[c] * (x[row + c] - mean[c]) + constant[c];
        }
      }
    }
  });
}

void relu(const float* x, float* y, std::int64_t n) {
#pragma omp simd
  for (std::int64_t i = 0; i < n; ++i) y[i] = rectified(x[i]);
}

void relu_bwd(const float* dy, const float* y, float* dx, std::int64_t n) {
#pragma omp simd
  for (std::int64_t i = 0; i < n; ++i) dx[i] = y[i] <= 0.0f ? 0.0f : dy[i];
}

}  // namespace

const BatchNormNumerics batch_norm_numerics{.moments = moments,
                                            .affine = affine,
                                            .sums = sums,
                                            .backward = backward,
                                            .relu = relu,
                                            .relu_bwd = relu_bwd};

}  // namespace trireme::cpu::TRIREME_ISA
