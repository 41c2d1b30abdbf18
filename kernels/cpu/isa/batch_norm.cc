// Statistics and affine maps of channels. Rows are pixels, columns are channels; sums run down the columns.
#include <type_traits>

#include "kernels/cpu/isa/vector.h"
#include "kernels/cpu/numerics.h"

namespace trireme::cpu::TRIREME_ISA {
namespace {

// sums[c] = sum over rows of term(row, c). Four rows at a time, which saves reads and writes of the sums.
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

// The mean first, then the squares about it. A single pass would lose the digits of a large mean.
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

// NaN stays NaN.
template <class T>
inline T rectified(T x) {
  return x < 0.0f ? T{} : x;
}

template <bool kStream, class T>
inline void put(float* to, T value) {
  if constexpr (kStream && std::is_same_v<T, Vector>) {
    stream(to, value);
  } else {
    store(to, value);
  }
}

// Runs body.template operator()<T>(offset, column) for all elements of a piece, T as in for_each_vector().
template <class Body>
inline void for_each_element(std::int64_t rows, std::int64_t cols, const Body& body) {
  for (std::int64_t m = 0; m < rows; ++m) {
    for_each_vector(cols, [&]<class T>(std::int64_t c) { body.template operator()<T>(m * cols + c, c); });
  }
}

template <bool kStream, bool kResidual, bool kRectify>
void affine_as(const ChannelAffine& p) {
  for_each_element(p.rows, p.cols, [&p]<class T>(std::int64_t i, std::int64_t c) {
    T y = load<T>(p.x + i) * load<T>(p.scale + c) + load<T>(p.shift + c);
    if constexpr (kResidual) y += load<T>(p.residual + i);
    if constexpr (kRectify) y = rectified(y);
    put<kStream>(p.y + i, y);
  });
  if constexpr (kStream) end_stream();
}

template <bool kStream>
void affine_by_kind(const ChannelAffine& p) {
  if (p.residual != nullptr) {
    return p.rectify ? affine_as<kStream, true, true>(p) : affine_as<kStream, true, false>(p);
  }
  return p.rectify ? affine_as<kStream, false, true>(p) : affine_as<kStream, false, false>(p);
}

void affine(const ChannelAffine& p) {
  return p.stream ? affine_by_kind<true>(p) : affine_by_kind<false>(p);
}

// Calls body(g), where g.template operator()<T>(element, column) is dy after the ReLU's backward.
template <class Body>
inline void with_gradient(const ChannelGradients& p, const Body& body) {
  if (p.passes == Passes::kFromY) {
    body([&p]<class T>(std::int64_t i, std::int64_t) {
      return load<T>(p.y + i) <= 0.0f ? T{} : load<T>(p.dy + i);
    });
  } else if (p.passes == Passes::kFromX) {
    body([&p]<class T>(std::int64_t i, std::int64_t c) {
      const T y = load<T>(p.x + i) * load<T>(p.scale + c) + load<T>(p.shift + c);
      return y <= 0.0f ? T{} : load<T>(p.dy + i);
    });
  } else {
    body([&p]<class T>(std::int64_t i, std::int64_t) { return load<T>(p.dy + i); });
  }
}

// Two rows at a time, which saves reads and writes of the sums.
template <bool kKeep>
void sums_as(const ChannelGradients& p) {
  const std::int64_t cols = p.cols;
  __builtin_memset(p.sum, 0, static_cast<std::size_t>(cols) * sizeof(float));
  __builtin_memset(p.sum_x, 0, static_cast<std::size_t>(cols) * sizeof(float));
  with_gradient(p, [&p, cols](const auto& gradient) {
    const auto term = [&]<class T>(std::int64_t i, std::int64_t c, T mean, T& g) {
      g = gradient.template operator()<T>(i, c);
      if constexpr (kKeep) store(p.gradient + i, g);
      return g * (load<T>(p.x + i) - mean);
    };
    std::int64_t m = 0;
    for (; m + 2 <= p.rows; m += 2) {
      for_each_vector(cols, [&]<class T>(std::int64_t c) {
        const T mean = load<T>(p.mean + c);
        T g0, g1;
        const T x0 = term.template operator()<T>(m * cols + c, c, mean, g0);
        const T x1 = term.template operator()<T>((m + 1) * cols + c, c, mean, g1);
        store(p.sum + c, load<T>(p.sum + c) + (g0 + g1));
        store(p.sum_x + c, load<T>(p.sum_x + c) + (x0 + x1));
      });
    }
    if (m == p.rows) return;
    for_each_vector(cols, [&]<class T>(std::int64_t c) {
      T g0;
      const T x0 = term.template operator()<T>(m * cols + c, c, load<T>(p.mean + c), g0);
      store(p.sum + c, load<T>(p.sum + c) + g0);
      store(p.sum_x + c, load<T>(p.sum_x + c) + x0);
    });
  });
}

void sums(const ChannelGradients& p) {
  return p.gradient != nullptr ? sums_as<true>(p) : sums_as<false>(p);
}

template <bool kStream>
void backward_as(const ChannelBackward& p) {
  with_gradient(p.in, [&p](const auto& gradient) {
    for_each_element(p.in.rows, p.in.cols, [&]<class T>(std::int64_t i, std::int64_t c) {
      const T g = gradient.template operator()<T>(i, c),
              centered = load<T>(p.in.x + i) - load<T>(p.in.mean + c);
      put<kStream>(p.dx + i,
                   load<T>(p.of_g + c) * g + load<T>(p.of_x + c) * centered + load<T>(p.constant + c));
    });
  });
  if constexpr (kStream) end_stream();
}

void backward(const ChannelBackward& p) {
  return p.stream ? backward_as<true>(p) : backward_as<false>(p);
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
