#include "kernels/cpu/numerics.h"

namespace trireme::cpu::TRIREME_ISA {
namespace {

void adamw(const AdamWRun& run) {
  float* __restrict__ param = run.param;
  float* __restrict__ exp_avg = run.exp_avg;
  float* __restrict__ exp_avg_sq = run.exp_avg_sq;
  const float* __restrict__ grad = run.grad;
  const AdamWRun a = run;
  for (std::int64_t i = 0; i < a.n; ++i) {
    const float g = a.clip * grad[i];
    const float m = a.beta1 * exp_avg[i] + (1.0f - a.beta1) * g;
    const float v = a.beta2 * exp_avg_sq[i] + (1.0f - a.beta2) * g * g;
    const float p = param[i] - a.decay * param[i];
    exp_avg[i] = m;
    exp_avg_sq[i] = v;
    param[i] = p - a.step_size * m / (__builtin_sqrtf(v) * a.rsqrt_bias2 + a.epsilon);
  }
}

void lion(const LionRun& run) {
  float* __restrict__ param = run.param;
  float* __restrict__ exp_avg = run.exp_avg;
  const float* __restrict__ grad = run.grad;
  const LionRun a = run;
  for (std::int64_t i = 0; i < a.n; ++i) {
    const float g = a.clip * grad[i];
    const float m = exp_avg[i];
    const float c = a.beta1 * m + (1.0f - a.beta1) * g;
    const float step = c > 0.0f ? a.lr : c < 0.0f ? -a.lr : c;  // 0 and NaN pass through
    exp_avg[i] = a.beta2 * m + (1.0f - a.beta2) * g;
    param[i] = param[i] - a.decay * param[i] - step;
  }
}

void sgd(const SgdRun& run) {
  float* __restrict__ param = run.param;
  float* __restrict__ buffer = run.momentum_buffer;
  const float* __restrict__ grad = run.grad;
  const SgdRun a = run;
  if (buffer == nullptr) {
    for (std::int64_t i = 0; i < a.n; ++i) {
      param[i] -= a.lr * (a.clip * grad[i] + a.weight_decay * param[i]);
    }
    return;
  }
  for (std::int64_t i = 0; i < a.n; ++i) {
    const float g = a.clip * grad[i] + a.weight_decay * param[i];
    const float moved = a.first_step ? g : a.momentum * buffer[i] + g;
    buffer[i] = moved;
    param[i] -= a.lr * (a.nesterov ? g + a.momentum * moved : moved);
  }
}

}  // namespace

const OptimizerNumerics optimizer_numerics{.adamw = adamw, .lion = lion, .sgd = sgd};

}  // namespace trireme::cpu::TRIREME_ISA
