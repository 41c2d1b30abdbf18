#include "kernels/cpu/isa/tables.h"
#include "kernels/cpu/isa/vector.h"
#include "kernels/cpu/isa/vector_math.h"

namespace trireme::cpu::TRIREME_ISA {
namespace {

float row(float* logits, std::int64_t cols, std::int32_t target, float scale, bool write_gradient) {
  const float max = max_over(logits, cols);
  const float target_logit = logits[target] - max;
  float sum = 0.0f;
  if (!write_gradient) {
#pragma omp simd reduction(+ : sum)
    for (std::int64_t j = 0; j < cols; ++j) sum += exp_approx(logits[j] - max);
  } else {
#pragma omp simd reduction(+ : sum)
    for (std::int64_t j = 0; j < cols; ++j) {
      const float e = exp_approx(logits[j] - max);
      logits[j] = e;
      sum += e;
    }
    const float factor = scale / sum;
    for (std::int64_t j = 0; j < cols; ++j) logits[j] *= factor;
    logits[target] -= scale;
  }
  return __builtin_logf(sum) - target_logit;
}

}  // namespace

const CrossEntropyNumerics cross_entropy_numerics{.row = row};

}  // namespace trireme::cpu::TRIREME_ISA
