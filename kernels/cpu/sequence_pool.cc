#include <algorithm>
#include <cassert>
#include <cmath>

#include "kernels/cpu/convert.h"
#include "kernels/cpu/launch.h"
#include "kernels/cpu/ops.h"

namespace trireme::cpu {
namespace {

// weights[0, n) = softmax(scores[first, first + n)).
void softmax(ConstTensorView scores, std::int64_t first, std::int64_t n, float* weights) {
  for (std::int64_t i = 0; i < n; i += kBuffer) {
    const std::int64_t count = std::min(kBuffer, n - i);
    float buffer[kBuffer];
    std::copy_n(read(scores, first + i, count, buffer), count, weights + i);
  }
  const float largest = *std::max_element(weights, weights + n);
  float sum = 0.0f;
  for (std::int64_t i = 0; i < n; ++i) sum += weights[i] = std::exp(weights[i] - largest);
  for (std::int64_t i = 0; i < n; ++i) weights[i] /= sum;
}

// Dot product of dy[row] and x[place], in column order.
float dot(ConstTensorView dy, std::int64_t row, ConstTensorView x, std::int64_t place, std::int64_t cols) {
  float sum = 0.0f;
  for (std::int64_t c = 0; c < cols; c += kBuffer) {
    const std::int64_t count = std::min(kBuffer, cols - c);
    float left[kBuffer], right[kBuffer];
    const float* a = read(dy, row * cols + c, count, left);
    const float* b = read(x, place * cols + c, count, right);
    for (std::int64_t i = 0; i < count; ++i) sum += a[i] * b[i];
  }
  return sum;
}

// out[0, count) += factor x[first, first + count).
void add_scaled(float* out, float factor, ConstTensorView x, std::int64_t first, std::int64_t count) {
  float buffer[kBuffer];
  const float* from = read(x, first, count, buffer);
  for (std::int64_t i = 0; i < count; ++i) out[i] += factor * from[i];
}

}  // namespace

void run_op(const KernelContext& exec, const SequencePoolFwdArgs& args) {
  check_one_float_type("sequence_pool_fwd", {args.x, args.scores, args.y});
  check_fp32("sequence_pool_fwd", {args.weights});
  const std::int64_t samples = args.x.shape[0], tokens = args.x.shape[1], cols = args.x.shape[2];
  assert(args.scores.num_elems() == samples * tokens && args.y.num_elems() == samples * cols);
  if (tokens == 0) return fill_zero(exec, args.y);
  for_each_piece(exec, samples, args.x.num_elems(), [&](std::int64_t b) {
    float* weights = args.weights.as<float>() + b * tokens;
    softmax(args.scores, b * tokens, tokens, weights);
    for (std::int64_t c = 0; c < cols; c += kBuffer) {
      const std::int64_t count = std::min(kBuffer, cols - c);
      float sum[kBuffer] = {};
      for (std::int64_t n = 0; n < tokens; ++n) {
        add_scaled(sum, weights[n], args.x, (b * tokens + n) * cols + c, count);
      }
      write(args.y, b * cols + c, count, sum);
    }
  });
}

void run_op(const KernelContext& exec, const SequencePoolBwdArgs& args) {
  check_one_float_type("sequence_pool_bwd", {args.dy, args.x, args.dx, args.dscores});
  check_fp32("sequence_pool_bwd", {args.weights});
  const std::int64_t samples = args.x.shape[0], tokens = args.x.shape[1], cols = args.x.shape[2];
  ThreadScratch scratch(exec, tokens);
  for_each_piece(exec, samples, 2 * args.x.num_elems(), [&](std::int64_t b) {
    const float* weights = args.weights.as<float>() + b * tokens;
    float* g = scratch.mine();
    float mean = 0.0f;
    for (std::int64_t n = 0; n < tokens; ++n) {
      g[n] = dot(args.dy, b, args.x, b * tokens + n, cols);
      mean += weights[n] * g[n];
    }
    for (std::int64_t n = 0; n < tokens; ++n) g[n] = weights[n] * (g[n] - mean);
    write(args.dscores, b * tokens, tokens, g);
    for (std::int64_t n = 0; n < tokens; ++n) {
      for (std::int64_t c = 0; c < cols; c += kBuffer) {
        const std::int64_t count = std::min(kBuffer, cols - c);
        float row[kBuffer] = {};
        add_scaled(row, weights[n], args.dy, b * cols + c, count);
        write(args.dx, (b * tokens + n) * cols + c, count, row);
      }
    }
  });
}

}  // namespace trireme::cpu
