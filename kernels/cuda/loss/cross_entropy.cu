// Softmax and cross-entropy with one block, or one cluster of blocks, per row. The first pass computes the
// maximum and the sum, the second the gradient. The last pack of a row may reach beyond the row, into the
// distance to the next.
//
// [Note: rows on the chip] The second pass reads the row from shared memory if two blocks with such rows fit
// a multiprocessor. Longer rows are held by the shared memory of a cluster of blocks, on cards that have
// clusters. Without clusters, they are read again. The rows of all running blocks are about as large as the
// card's cache, so part of them comes from memory. The threads of a cluster have the shares of a row that one
// block's threads have, and their sums are joined in the same order. So all three ways have the same bits.
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
#include "kernels/cuda/tensor_cores.h"

namespace trireme::cuda {
namespace {

// The packs of a row that a thread owns. The blocks of a cluster share a row as if they were one block.
template <int N, int kBlocks, int kBlockThreads>
struct RowShare {
  static constexpr int kRowThreads = kBlocks * kBlockThreads, kStride = kRowThreads * N;
  static constexpr int kHeldPacks = kBlocks > 1 ? 16 : 4;  // per thread, in flight

  static __device__ int thread() {
    return static_cast<int>(blockIdx.x % kBlocks) * kBlockThreads + static_cast<int>(threadIdx.x);
  }
  // The place, among the elements that a block keeps, of element c.
  static __device__ std::uint64_t kept(std::int64_t c) {
    return static_cast<std::uint64_t>(c) / kStride * (kBlockThreads * N) + threadIdx.x * N;
  }
  static constexpr std::int64_t kept_elems(std::int64_t cols) {
    return kBlocks == 1 ? ceil_div(cols, N) * N : ceil_div(cols, kStride) * kBlockThreads * N;
  }

  // Calls run(c, read(c)) for a thread's packs. Reads several packs before it uses one. run may overwrite
  // them.
  template <class Read, class Run>
  static __device__ void for_packs(std::int64_t cols, const Read& read, const Run& run) {
    for (std::int64_t begin = std::int64_t{thread()} * N; begin < cols; begin += kHeldPacks * kStride) {
      decltype(read(begin)) held[kHeldPacks] = {};
#pragma unroll
      for (int r = 0; r < kHeldPacks; ++r) {
        if (begin + r * kStride < cols) held[r] = read(begin + r * kStride);
      }
#pragma unroll
      for (int r = 0; r < kHeldPacks; ++r) {
        if (begin + r * kStride < cols) run(begin + r * kStride, held[r]);
      }
    }
  }
};

constexpr std::size_t kBoardBytes = 128;  // before the kept elements of a block of a cluster

// Blocks per multiprocessor, as registers must allow.
constexpr int blocks_for(int blocks, int threads) {
  return blocks > 1 ? 5 : 1024 / threads;
}

template <class T, int N, int kBlocks, int kBlockThreads, bool kKeepRow>
__global__ void __launch_bounds__(kBlockThreads, blocks_for(kBlocks, kBlockThreads))
    cross_entropy_kernel(T* logits, const std::int32_t* targets, float* row_losses, std::int64_t cols,
                         std::int64_t pitch, float scale, const float* gradient_scale, bool write_gradient) {
  using Share = RowShare<N, kBlocks, kBlockThreads>;
  const std::int64_t row = blockIdx.x / kBlocks;
  const std::int32_t target = targets[row];
  T* const x = logits + row * pitch;
  auto* const board = reinterpret_cast<ExpSum*>(dynamic_shared());
  // Each thread reads what it has written itself.
  T* const kept = reinterpret_cast<T*>(dynamic_shared() + (kBlocks > 1 ? kBoardBytes / sizeof(float) : 0));
  const auto read = [&](std::int64_t c) { return load_pack<N>(x + c); };
  if (target < 0) {
    if (Share::thread() == 0) row_losses[row] = 0.0f;
    if (!write_gradient) return;
    const float zeros[N] = {};
    for (std::int64_t c = std::int64_t{Share::thread()} * N; c < cols; c += Share::kStride) {
      store<N>(x + c, zeros);
    }
    return;
  }
  ExpSum own = no_exps();
  Share::for_packs(cols, read, [&](std::int64_t c, const Pack<T, N>& pack) {
    if constexpr (kKeepRow) *reinterpret_cast<Pack<T, N>*>(kept + Share::kept(c)) = pack;
    float v[N];
#pragma unroll
    for (int i = 0; i < N; ++i) v[i] = c + i < cols ? to_float(pack.elems[i]) : -INFINITY;
    include(own, v);
  });
  // An out-of-range target must not read beyond the row. NaN marks the error.
  const float target_logit = target < cols ? to_float(x[target]) : nanf("");
  ExpSum total;  // the join is a barrier: all have read the target's logit
  if constexpr (kBlocks > 1) {
    total = cluster_join<kBlocks, kBlockThreads>(own, board);
  } else {
    total = block_join<kBlockThreads>(own);
  }
  if (Share::thread() == 0) row_losses[row] = logf(total.sum) + total.max - target_logit;
  if (!write_gradient) return;
  if (gradient_scale != nullptr) scale *= *gradient_scale;
  const float factor = scale / total.sum;
  const auto write = [&](std::int64_t c, const Pack<T, N>& pack) {
    float v[N];
#pragma unroll
    for (int i = 0; i < N; ++i) v[i] = exp_below(to_float(pack.elems[i]) - total.max) * factor;
    store<N>(x + c, v);
  };
  if constexpr (kKeepRow) {
    Share::for_packs(
        cols, [&](std::int64_t c) { return load_pack<N>(kept + Share::kept(c)); }, write);
  } else {
    Share::for_packs(cols, read, write);
  }
  // Only the thread that wrote the target's pack continues.
  if (target >= cols || target / N % Share::kRowThreads != Share::thread()) return;
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

// Dynamic shared memory of a block.
template <class T, int N, int kBlocks, int kBlockThreads, bool kKeepRow>
std::size_t shared_bytes_for(std::int64_t cols) {
  if (!kKeepRow) return 0;
  const std::int64_t elems = RowShare<N, kBlocks, kBlockThreads>::kept_elems(cols);
  return (kBlocks > 1 ? kBoardBytes : 0) + static_cast<std::size_t>(elems) * sizeof(T);
}

template <class T, int N>
void run_rows(const KernelContext& exec, const SoftmaxCrossEntropyArgs& args, std::int64_t rows,
              std::int64_t cols, float* row_losses) {
  const auto run = [&]<int kBlocks, int kBlockThreads, bool kKeepRow>(
                       std::integral_constant<int, kBlocks>, std::integral_constant<int, kBlockThreads>,
                       std::bool_constant<kKeepRow>) {
    auto* const kernel = cross_entropy_kernel<T, N, kBlocks, kBlockThreads, kKeepRow>;
    const std::size_t shared_bytes = shared_bytes_for<T, N, kBlocks, kBlockThreads, kKeepRow>(cols);
    allow_shared_bytes("softmax_cross_entropy", kernel, shared_bytes);
    launch_clusters(exec, "softmax_cross_entropy", kBlocks, grid_of(kBlocks * rows), kBlockThreads,
                    shared_bytes, kernel, args.logits.as<T>(), args.targets.as<std::int32_t>(), row_losses,
                    cols, args.logits_pitch > 0 ? args.logits_pitch : cols, args.inv_num_targets,
                    args.gradient_scale.as<float>(), args.write_gradient);
  };
  constexpr std::integral_constant<int, 1> one;
  constexpr std::integral_constant<int, kMostClusterBlocks> cluster;
  constexpr std::integral_constant<int, 128> few;
  constexpr std::integral_constant<int, 512> many;
  constexpr std::integral_constant<int, many / cluster> share;
  const auto fits = [&](std::size_t bytes) {
    return args.write_gradient && 2 * bytes <= max_shared_bytes(exec);
  };
  const bool is_kept = fits(shared_bytes_for<T, N, one, many, true>(cols));
  if (cols > 4096 && is_kept) {
    run(one, many, std::true_type{});
  } else if (cols > 4096 && fits(shared_bytes_for<T, N, cluster, share, true>(cols)) && has_clusters(exec)) {
    run(cluster, share, std::true_type{});
  } else if (cols > 4096) {
    run(one, many, std::false_type{});
  } else if (is_kept) {
    run(one, few, std::true_type{});
  } else {
    run(one, few, std::false_type{});
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
