// Softmax and cross-entropy with one block per row. The first pass computes the maximum and the sum, the
// second the gradient. The last pack of a row may reach beyond the row, into the distance to the next.
//
// [Note: rows on the chip] The second pass reads the row from shared memory if two blocks with such rows fit
// a multiprocessor. Longer rows are read again. The rows of all running blocks are about as large as the
// card's cache, so part of them comes from memory.
#include <cassert>

#include "kernels/cuda/device/workspace.h"
#include "kernels/cuda/dynamic_shared.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/loss/exp_sum.cuh"
#include "kernels/cuda/loss/row_losses.cuh"
#include "kernels/cuda/loss/soft_cross_entropy.cuh"
#include "kernels/cuda/ops.h"
#include "kernels/cuda/pack.cuh"
#include "kernels/cuda/reduce.cuh"

namespace trireme::cuda {
namespace {

constexpr int kHeldPacks = 4;  // per thread, in flight

// Calls run(c, pack) for a thread's packs of a row. Loads several packs before it uses one. run may overwrite
// them.
template <int N, int kStride, class T, class Run>
__device__ inline void for_packs(const T* row, std::int64_t cols, const Run& run) {
  for (std::int64_t begin = std::int64_t{threadIdx.x} * N; begin < cols; begin += kHeldPacks * kStride) {
    Pack<T, N> held[kHeldPacks] = {};
#pragma unroll
    for (int r = 0; r < kHeldPacks; ++r) {
      if (begin + r * kStride < cols) held[r] = load_pack<N>(row + begin + r * kStride);
    }
#pragma unroll
    for (int r = 0; r < kHeldPacks; ++r) {
      if (begin + r * kStride < cols) run(begin + r * kStride, held[r]);
    }
  }
}

template <class T, int N, int kBlockThreads, bool kKeepRow>
__global__ void __launch_bounds__(kBlockThreads, 1024 / kBlockThreads)
    cross_entropy_kernel(T* logits, const std::int32_t* targets, float* row_losses, std::int64_t cols,
                         std::int64_t pitch, float scale, const float* gradient_scale, bool write_gradient) {
  constexpr int kStride = kBlockThreads * N;
  const std::int64_t row = blockIdx.x;
  const std::int32_t target = targets[row];
  T* const x = logits + row * pitch;
  T* const kept = reinterpret_cast<T*>(dynamic_shared());  // each thread reads what it has written itself
  if (target < 0) {
    if (threadIdx.x == 0) row_losses[row] = 0.0f;
    if (!write_gradient) return;
    const float zeros[N] = {};
    for (std::int64_t c = std::int64_t{threadIdx.x} * N; c < cols; c += kStride) store<N>(x + c, zeros);
    return;
  }
  ExpSum own = no_exps();
  for_packs<N, kStride>(x, cols, [&](std::int64_t c, const Pack<T, N>& pack) {
    if constexpr (kKeepRow) *reinterpret_cast<Pack<T, N>*>(kept + c) = pack;
    float v[N];
#pragma unroll
    for (int i = 0; i < N; ++i) v[i] = c + i < cols ? to_float(pack.elems[i]) : -INFINITY;
    include(own, v);
  });
  // An out-of-range target must not read beyond the row. NaN marks the error.
  const float target_logit = target < cols ? to_float(x[target]) : nanf("");
  const ExpSum total = block_join<kBlockThreads>(own);  // a barrier: all have read the target's logit
  if (threadIdx.x == 0) row_losses[row] = logf(total.sum) + total.max - target_logit;
  if (!write_gradient) return;
  if (gradient_scale != nullptr) scale *= *gradient_scale;
  const float factor = scale / total.sum;
  for_packs<N, kStride>(kKeepRow ? kept : x, cols, [&](std::int64_t c, const Pack<T, N>& pack) {
    float v[N];
#pragma unroll
    for (int i = 0; i < N; ++i) v[i] = exp_below(to_float(pack.elems[i]) - total.max) * factor;
    store<N>(x + c, v);
  });
  // Only the thread that wrote the target's pack continues.
  if (target >= cols || target / N % kBlockThreads != static_cast<int>(threadIdx.x)) return;
  x[target] = from_float<T>(exp_below(target_logit - total.max) * factor - scale);
}

constexpr int kSumThreads = 512;

// One block. The number of rows fixes the order.
__global__ void __launch_bounds__(kSumThreads)
    sum_losses_kernel(const float* row_losses, std::int64_t rows, float scale, float* loss) {
  __shared__ double shared[kSumThreads / kWarp];
  double sum = 0.0;
#pragma unroll 4
  for (std::int64_t row = threadIdx.x; row < rows; row += kSumThreads) sum += row_losses[row];
  sum = block_sum<kSumThreads>(sum, shared);
  if (threadIdx.x == 0) *loss = static_cast<float>(scale * sum);
}

template <class T, int N>
void run_rows(const KernelContext& exec, const SoftmaxCrossEntropyArgs& args, std::int64_t rows,
              std::int64_t cols, float* row_losses) {
  const std::size_t row_bytes = static_cast<std::size_t>(ceil_div(cols, N) * N) * sizeof(T);
  const bool keep_row = args.write_gradient && 2 * row_bytes <= max_shared_bytes(exec);
  const auto run = [&](auto* kernel, int threads) {
    const std::size_t shared_bytes = keep_row ? row_bytes : 0;
    allow_shared_bytes("softmax_cross_entropy", kernel, shared_bytes);
    launch(exec, "softmax_cross_entropy", grid_of(rows), threads, shared_bytes, kernel, args.logits.as<T>(),
           args.targets.as<std::int32_t>(), row_losses, cols,
           args.logits_pitch > 0 ? args.logits_pitch : cols, args.inv_num_targets,
           args.gradient_scale.as<float>(), args.write_gradient);
  };
  if (cols > 4096 && keep_row) {
    run(cross_entropy_kernel<T, N, 512, true>, 512);
  } else if (cols > 4096) {
    run(cross_entropy_kernel<T, N, 512, false>, 512);
  } else if (keep_row) {
    run(cross_entropy_kernel<T, N, 128, true>, 128);
  } else {
    run(cross_entropy_kernel<T, N, 128, false>, 128);
  }
}

}  // namespace

void sum_row_losses(const KernelContext& exec, const float* row_losses, std::int64_t rows, float scale,
                    float* loss) {
  launch(exec, "softmax_cross_entropy", 1, kSumThreads, 0, sum_losses_kernel, row_losses, rows, scale, loss);
}

void run_op(const KernelContext& exec, const SoftmaxCrossEntropyArgs& args) {
  const std::int64_t cols = args.logits.shape.dim(-1), rows = args.logits.num_elems() / cols;
  assert(rows == 0 || args.targets.num_elems() % rows == 0);
  const bool soft =
      args.label_smoothing != 0.0f || args.target_weights.defined() || args.targets.num_elems() != rows;
  check_dtype("softmax_cross_entropy", DType::kFloat32,
              {args.loss, args.gradient_scale, args.target_weights});
  check_dtype("softmax_cross_entropy", DType::kInt32, {args.targets});
  const Workspace row_losses(exec, static_cast<std::size_t>(std::max<std::int64_t>(1, rows)) * sizeof(float));
  if (rows > 0 && soft) {
    soft_cross_entropy_rows(exec, args, row_losses.as<float>());
  } else if (rows > 0) {
    for_float_type("softmax_cross_entropy", args.logits.dtype, [&]<class T>(T) {
      const std::int64_t pitch = args.logits_pitch > 0 ? args.logits_pitch : cols;
      with_pack<T>(rows_are_packable(pitch, sizeof(T), {args.logits.data}),
                   [&]<int N>(std::integral_constant<int, N>) {
                     run_rows<T, N>(exec, args, rows, cols, row_losses.as<float>());
                   });
    });
  }
  sum_row_losses(exec, row_losses.as<float>(), rows, args.inv_num_targets, args.loss.as<float>());
}

}  // namespace trireme::cuda
