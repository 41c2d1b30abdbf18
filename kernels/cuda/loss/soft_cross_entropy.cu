// One block per row. q is the distribution of the targets, W its sum, lse = log sum exp. loss = W lse - sum
// q_j logit_j, and the gradient is W p - q.
#include "kernels/cuda/loss/soft_cross_entropy.cuh"

#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/loss/exp_sum.cuh"
#include "kernels/cuda/pack.cuh"
#include "kernels/cuda/reduce.cuh"

namespace trireme::cuda {
namespace {

constexpr int kRowThreads = 128;

struct SoftTargets {
  const std::int32_t* targets;  // [M * count]
  const float* weights;         // likewise, or null: 1
  int count;
  float smoothing;

  // The weight of target k of a row; 0 for an ignored target.
  __device__ float weight(std::int64_t row, int k) const {
    const std::int64_t at = row * count + k;
    if (targets[at] < 0) return 0.0f;
    return weights != nullptr ? weights[at] : 1.0f;
  }
  __device__ bool ignores(std::int64_t row) const {
    for (int k = 0; k < count; ++k) {
      if (targets[row * count + k] >= 0) return false;
    }
    return true;
  }
};

template <class T, int N>
__global__ void __launch_bounds__(kRowThreads)
    soft_cross_entropy_kernel(T* logits, SoftTargets t, float* row_losses, std::int64_t cols,
                              std::int64_t pitch, float scale, const float* gradient_scale,
                              bool write_gradient) {
  __shared__ float shared[kRowThreads / kWarp];
  const std::int64_t row = blockIdx.x;
  T* x = logits + row * pitch;
  const std::int64_t first = std::int64_t{threadIdx.x} * N;
  constexpr std::int64_t kStride = std::int64_t{kRowThreads} * N;
  if (t.ignores(row)) {
    if (threadIdx.x == 0) row_losses[row] = 0.0f;
    if (!write_gradient) return;
    const float zeros[N] = {};
    for (std::int64_t c = first; c < cols; c += kStride) store<N>(x + c, zeros);
    return;
  }
  const float reference = to_float(x[0]);  // keeps the digits of the sum of logits that are far from 0
  ExpSum own = no_exps();
  float logits_sum = 0.0f;
  for (std::int64_t c = first; c < cols; c += kStride) {
    float v[N];
    load<N>(x + c, v);
    include(own, v);
    if (t.smoothing == 0.0f) continue;  // without smoothing, infinite logits must not make it NaN
#pragma unroll
    for (int i = 0; i < N; ++i) logits_sum += v[i] - reference;
  }
  const ExpSum exps = block_join<kRowThreads>(own);
  float total = 0.0f, hits = 0.0f;
  for (int k = 0; k < t.count; ++k) {
    const std::int32_t target = t.targets[row * t.count + k];
    if (target < 0) continue;
    // An out-of-range target must not read beyond the row. NaN marks the error.
    const float logit = target < cols ? to_float(x[target]) : nanf("");
    total += t.weight(row, k);
    hits += t.weight(row, k) * (logit - exps.max);
  }
  logits_sum = block_sum<kRowThreads>(logits_sum, shared);  // has barriers: all values have been read
  const float even = t.smoothing * total / static_cast<float>(cols);
  if (threadIdx.x == 0) {
    float loss = total * logf(exps.sum) - (1.0f - t.smoothing) * hits;
    if (t.smoothing != 0.0f) {
      loss -= even * (logits_sum + static_cast<float>(cols) * (reference - exps.max));
    }
    row_losses[row] = loss;
  }
  if (!write_gradient) return;
  if (gradient_scale != nullptr) scale *= *gradient_scale;
  const float factor = scale * total / exps.sum;
  for (std::int64_t c = first; c < cols; c += kStride) {
    float v[N];
    load<N>(x + c, v);
#pragma unroll
    for (int i = 0; i < N; ++i) {
      v[i] = exp_below(v[i] - exps.max) * factor - scale * even;
      for (int k = 0; k < t.count; ++k) {
        if (t.targets[row * t.count + k] != c + i) continue;
        v[i] -= scale * (1.0f - t.smoothing) * t.weight(row, k);
      }
    }
    store<N>(x + c, v);
  }
}

}  // namespace

void soft_cross_entropy_rows(const KernelContext& exec, const SoftmaxCrossEntropyArgs& args,
                             float* row_losses) {
  const std::int64_t cols = args.logits.shape.dim(-1), rows = args.logits.num_elems() / cols;
  const SoftTargets targets{.targets = args.targets.as<std::int32_t>(),
                            .weights = args.target_weights.as<float>(),
                            .count = static_cast<int>(args.targets.num_elems() / rows),
                            .smoothing = args.label_smoothing};
  for_float_type("softmax_cross_entropy", args.logits.dtype, [&]<class T>(T) {
    const std::int64_t pitch = args.logits_pitch > 0 ? args.logits_pitch : cols;
    with_pack<T>(rows_are_packable(cols, sizeof(T), {args.logits.data}) && pitch % kPack<T> == 0,
                 [&]<int N>(std::integral_constant<int, N>) {
                   launch(exec, "softmax_cross_entropy", grid_of(rows), kRowThreads, 0,
                          soft_cross_entropy_kernel<T, N>, args.logits.as<T>(), targets, row_losses, cols,
                          pitch, args.inv_num_targets, args.gradient_scale.as<float>(), args.write_gradient);
                 });
  });
}

}  // namespace trireme::cuda
