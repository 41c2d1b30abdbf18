#include "kernels/cpu/isa/vector.h"
#include "kernels/cpu/isa/vector_math.h"
#include "kernels/cpu/numerics.h"

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

// q is the distribution of the targets, W its sum and lse = log sum exp. loss = W lse - sum q_j logit_j, and
// the gradient is W p - q.
float soft_row(float* logits, std::int64_t cols, const SoftTargets& t, float scale, bool write_gradient) {
  const float max = max_over(logits, cols);
  float total = 0.0f, hits = 0.0f;
  for (std::int64_t k = 0; k < t.count; ++k) {
    if (t.targets[k] < 0) continue;
    const float weight = t.weights != nullptr ? t.weights[k] : 1.0f;
    total += weight;
    hits += weight * (logits[t.targets[k]] - max);
  }
  float sum = 0.0f, sum_logits = 0.0f;
#pragma omp simd reduction(+ : sum, sum_logits)
  for (std::int64_t j = 0; j < cols; ++j) {
    sum_logits += logits[j] - max;
    sum += exp_approx(logits[j] - max);
  }
  const float even = t.smoothing * total / static_cast<float>(cols);
  if (write_gradient) {
    const float factor = scale * total / sum, less = scale * even;
#pragma omp simd
    for (std::int64_t j = 0; j < cols; ++j) logits[j] = exp_approx(logits[j] - max) * factor - less;
    for (std::int64_t k = 0; k < t.count; ++k) {
      if (t.targets[k] < 0) continue;
      const float weight = t.weights != nullptr ? t.weights[k] : 1.0f;
      logits[t.targets[k]] -= scale * (1.0f - t.smoothing) * weight;
    }
  }
  return total * __builtin_logf(sum) - (1.0f - t.smoothing) * hits - even * sum_logits;
}

void exp_sum(const float* logits, std::int64_t cols, float& max, float& sum) {
  const float largest = max_over(logits, cols);
  float total = 0.0f;
#pragma omp simd reduction(+ : total)
  for (std::int64_t j = 0; j < cols; ++j) total += exp_approx(logits[j] - largest);
  max = largest;
  sum = total;
}

void join_exp_sums(const float* a, const float* b, float* out, std::int64_t rows) {
#pragma omp simd
  for (std::int64_t i = 0; i < rows; ++i) {
    const float max = a[i] > b[i] ? a[i] : b[i];
    const float sum = a[rows + i] * exp_approx(a[i] - max) + b[rows + i] * exp_approx(b[i] - max);
    out[i] = max;
    out[rows + i] = sum;
  }
}

void softmax(float* logits, std::int64_t cols, float max, float factor) {
#pragma omp simd
  for (std::int64_t j = 0; j < cols; ++j) logits[j] = exp_approx(logits[j] - max) * factor;
}

}  // namespace

const CrossEntropyNumerics cross_entropy_numerics{
    .row = row, .soft_row = soft_row, .exp_sum = exp_sum, .join_exp_sums = join_exp_sums, .softmax = softmax};

}  // namespace trireme::cpu::TRIREME_ISA
