#include "kernels/cpu/isa/vector.h"
#include "kernels/cpu/numerics.h"

namespace trireme::cpu::TRIREME_ISA {
namespace {

// The mean is taken first and the variance about it: one pass would lose the digits of a large mean. Of RMS
// norm (not kCentered) the mean is 0.
template <bool kCentered>
void fwd_row(const LayerNormRows& a, std::int64_t row) {
  const std::int64_t cols = a.cols;
  const float *x = a.x + row * cols, *gamma = a.gamma, *beta = a.beta;
  float* y = a.y + row * cols;
  const float inverse_cols = 1.0f / static_cast<float>(cols);
  float mean = 0.0f;
  if constexpr (kCentered) {
    mean = sum_over(cols, [&]<class T>(std::int64_t c) { return load<T>(x + c); }) * inverse_cols;
    a.mean[row] = mean;
  }
  const float variance = inverse_cols * sum_over(cols, [&]<class T>(std::int64_t c) {
                           const T centered = load<T>(x + c) - mean;
                           return centered * centered;
                         });
  const float rstd = 1.0f / __builtin_sqrtf(variance + a.epsilon);
  a.rstd[row] = rstd;
  for_each_vector(cols, [&]<class T>(std::int64_t c) {
    const T scaled = (load<T>(x + c) - mean) * rstd * load<T>(gamma + c);
    if constexpr (kCentered) {
      store<T>(y + c, scaled + load<T>(beta + c));
    } else {
      store<T>(y + c, scaled);
    }
  });
}

void fwd(const LayerNormRows& a) {
  for (std::int64_t row = 0; row < a.rows; ++row) {
    if (a.mean != nullptr) {
      fwd_row<true>(a, row);
    } else {
      fwd_row<false>(a, row);
    }
  }
}

// dx = rstd (g - mean(g) - xhat mean(g xhat)) with g = gamma dy; of RMS norm without mean(g).
template <bool kCentered>
void bwd_row(const LayerNormBwdRows& a, std::int64_t row) {
  const std::int64_t cols = a.cols;
  const float *dy = a.dy + row * cols, *x = a.x + row * cols, *gamma = a.gamma;
  const float* dx_add = a.dx_add != nullptr ? a.dx_add + row * cols : nullptr;
  float* dx = a.dx + row * cols;
  const float mean = kCentered ? a.mean[row] : 0.0f, rstd = a.rstd[row];
  const float inverse_cols = 1.0f / static_cast<float>(cols);
  float mean_g = 0.0f;
  if constexpr (kCentered) {
    mean_g = inverse_cols *
             sum_over(cols, [&]<class T>(std::int64_t c) { return load<T>(dy + c) * load<T>(gamma + c); });
  }
  const float mean_g_xhat = inverse_cols * sum_over(cols, [&]<class T>(std::int64_t c) {
                              const T dy_c = load<T>(dy + c);
                              const T xhat = (load<T>(x + c) - mean) * rstd;
                              store<T>(a.dgamma + c, load<T>(a.dgamma + c) + dy_c * xhat);
                              if constexpr (kCentered) store<T>(a.dbeta + c, load<T>(a.dbeta + c) + dy_c);
                              return dy_c * load<T>(gamma + c) * xhat;
                            });
  for_each_vector(cols, [&]<class T>(std::int64_t c) {
    const T xhat = (load<T>(x + c) - mean) * rstd;
    const T result = (load<T>(dy + c) * load<T>(gamma + c) - mean_g - xhat * mean_g_xhat) * rstd;
    store<T>(dx + c, dx_add != nullptr ? result + load<T>(dx_add + c) : result);
  });
}

void bwd(const LayerNormBwdRows& a) {
  for (std::int64_t row = 0; row < a.rows; ++row) {
    if (a.mean != nullptr) {
      bwd_row<true>(a, row);
    } else {
      bwd_row<false>(a, row);
    }
  }
}

}  // namespace

const LayerNormNumerics layer_norm_numerics{.fwd = fwd, .bwd = bwd};

}  // namespace trireme::cpu::TRIREME_ISA
