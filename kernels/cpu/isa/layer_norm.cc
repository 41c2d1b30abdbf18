#include "kernels/cpu/isa/vector.h"
#include "kernels/cpu/numerics.h"

namespace trireme::cpu::TRIREME_ISA {
namespace {

// The mean first, then the variance about it. A single pass would lose the digits of a large mean.
void fwd_row(const float* x, const float* gamma, const float* beta, float* y, std::int64_t cols,
             float epsilon, float* mean_out, float* rstd_out) {
  const float inverse_cols = 1.0f / static_cast<float>(cols);
  const float mean = sum_over(cols, [&]<class T>(std::int64_t c) { return load<T>(x + c); }) * inverse_cols;
  const float variance = inverse_cols * sum_over(cols, [&]<class T>(std::int64_t c) {
                           const T centered = load<T>(x + c) - mean;
                           return centered * centered;
                         });
  const float rstd = 1.0f / __builtin_sqrtf(variance + epsilon);
  for_each_vector(cols, [&]<class T>(std::int64_t c) {
    store<T>(y + c, (load<T>(x + c) - mean) * rstd * load<T>(gamma + c) + load<T>(beta + c));
  });
  *mean_out = mean;
  *rstd_out = rstd;
}

void fwd(const LayerNormRows& a) {
  for (std::int64_t m = 0; m < a.rows; ++m) {
    fwd_row(a.x + m * a.cols, a.gamma, a.beta, a.y + m * a.cols, a.cols, a.epsilon, a.mean + m, a.rstd + m);
  }
}

struct BwdRow {
  const float *dy, *x, *gamma;
  const float* dx_add;  // or null
  float* dx;
  float *dgamma, *dbeta;
  float mean, rstd;
};

// dx = rstd (g - mean(g) - xhat mean(g xhat)) with g = gamma dy.
void bwd_row(const BwdRow& r, std::int64_t cols) {
  const float inverse_cols = 1.0f / static_cast<float>(cols);
  const float mean_g = inverse_cols * sum_over(cols, [&]<class T>(std::int64_t c) {
                         return load<T>(r.dy + c) * load<T>(r.gamma + c);
                       });
  const float mean_g_xhat = inverse_cols * sum_over(cols, [&]<class T>(std::int64_t c) {
                              const T dy = load<T>(r.dy + c);
                              const T xhat = (load<T>(r.x + c) - r.mean) * r.rstd;
                              store<T>(r.dgamma + c, load<T>(r.dgamma + c) + dy * xhat);
                              store<T>(r.dbeta + c, load<T>(r.dbeta + c) + dy);
                              return dy * load<T>(r.gamma + c) * xhat;
                            });
  for_each_vector(cols, [&]<class T>(std::int64_t c) {
    const T xhat = (load<T>(r.x + c) - r.mean) * r.rstd;
    const T dx = (load<T>(r.dy + c) * load<T>(r.gamma + c) - mean_g - xhat * mean_g_xhat) * r.rstd;
    store<T>(r.dx + c, r.dx_add != nullptr ? dx + load<T>(r.dx_add + c) : dx);
  });
}

void bwd(const LayerNormBwdRows& a) {
  for (std::int64_t m = 0; m < a.rows; ++m) {
    const std::int64_t row = m * a.cols;
    bwd_row({.dy = a.dy + row,
             .x = a.x + row,
             .gamma = a.gamma,
             .dx_add = a.dx_add != nullptr ? a.dx_add + row : nullptr,
             .dx = a.dx + row,
             .dgamma = a.dgamma,
             .dbeta = a.dbeta,
             .mean = a.mean[m],
             .rstd = a.rstd[m]},
            a.cols);
  }
}

void rms_fwd_row(const float* x, const float* gamma, float* y, std::int64_t cols, float epsilon,
                 float* rstd_out) {
  const float mean_square = sum_over(cols,
                                     [&]<class T>(std::int64_t c) {
                                       const T value = load<T>(x + c);
                                       return value * value;
                                     }) /
                            static_cast<float>(cols);
  const float rstd = 1.0f / __builtin_sqrtf(mean_square + epsilon);
  for_each_vector(
      cols, [&]<class T>(std::int64_t c) { store<T>(y + c, load<T>(x + c) * rstd * load<T>(gamma + c)); });
  *rstd_out = rstd;
}

void rms_fwd(const LayerNormRows& a) {
  for (std::int64_t m = 0; m < a.rows; ++m) {
    rms_fwd_row(a.x + m * a.cols, a.gamma, a.y + m * a.cols, a.cols, a.epsilon, a.rstd + m);
  }
}

// dx = rstd (g - xhat mean(g xhat)).
void rms_bwd_row(const BwdRow& r, std::int64_t cols) {
  const float mean_g_xhat = sum_over(cols,
                                     [&]<class T>(std::int64_t c) {
                                       const T dy = load<T>(r.dy + c);
                                       const T xhat = load<T>(r.x + c) * r.rstd;
                                       store<T>(r.dgamma + c, load<T>(r.dgamma + c) + dy * xhat);
                                       return dy * load<T>(r.gamma + c) * xhat;
                                     }) /
                            static_cast<float>(cols);
  for_each_vector(cols, [&]<class T>(std::int64_t c) {
    const T xhat = load<T>(r.x + c) * r.rstd;
    const T dx = (load<T>(r.dy + c) * load<T>(r.gamma + c) - xhat * mean_g_xhat) * r.rstd;
    store<T>(r.dx + c, r.dx_add != nullptr ? dx + load<T>(r.dx_add + c) : dx);
  });
}

void rms_bwd(const LayerNormBwdRows& a) {
  for (std::int64_t m = 0; m < a.rows; ++m) {
    const std::int64_t row = m * a.cols;
    rms_bwd_row({.dy = a.dy + row,
                 .x = a.x + row,
                 .gamma = a.gamma,
                 .dx_add = a.dx_add != nullptr ? a.dx_add + row : nullptr,
                 .dx = a.dx + row,
                 .dgamma = a.dgamma,
                 .dbeta = nullptr,
                 .mean = 0.0f,
                 .rstd = a.rstd[m]},
                a.cols);
  }
}

}  // namespace

const LayerNormNumerics layer_norm_numerics{.fwd = fwd, .bwd = bwd, .rms_fwd = rms_fwd, .rms_bwd = rms_bwd};

}  // namespace trireme::cpu::TRIREME_ISA
