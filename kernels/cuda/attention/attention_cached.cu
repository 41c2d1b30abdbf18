// Attention of a few new tokens to many cached ones. One block handles one query of one head. It iterates
// over tiles of one key per thread, with a running maximum and sum (Dao et al. 2022).
#include <cassert>
#include <cfloat>

#include "kernels/cuda/dynamic_shared.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/ops.h"
#include "kernels/cuda/pack.cuh"

namespace trireme::cuda {
namespace {

struct CachedProblem {
  std::int64_t tokens, capacity, first;
  std::int64_t window;  // 0: none
  int heads, kv_heads, head_dim;
  float scale;

  /// Element 0 of a head of a packed row. Heads are numbered over q, then k, then v.
  __device__ std::int64_t packed_at(std::int64_t sample, std::int64_t token, int head) const {
    return ((sample * tokens + token) * (heads + 2 * kv_heads) + head) * head_dim;
  }
  /// Element 0 of a row in [B, K, capacity, D].
  __device__ std::int64_t row_of(std::int64_t sample, int kv_head, std::int64_t token) const {
    return ((sample * kv_heads + kv_head) * capacity + token) * head_dim;
  }
};

// Grid: T, K, B.
template <class T>
__global__ void __launch_bounds__(kThreads)
    keep_rows_kernel(CachedProblem a, const T* qkv, T* keys, T* values) {
  const std::int64_t token = blockIdx.x, sample = blockIdx.z;
  const int kv_head = static_cast<int>(blockIdx.y);
  const std::int64_t to = a.row_of(sample, kv_head, a.first + token);
  const T* k = qkv + a.packed_at(sample, token, a.heads + kv_head);
  const T* v = k + a.kv_heads * a.head_dim;
  for (int i = threadIdx.x; i < a.head_dim; i += blockDim.x) {
    keys[to + i] = k[i];
    values[to + i] = v[i];
  }
}

// Grid: T, H, B. Shared: q and the sum [head_dim], the tile's probabilities [kThreads].
template <class T>
__global__ void __launch_bounds__(kThreads)
    attend_kernel(CachedProblem a, const T* qkv, const T* keys, const T* values, T* out) {
  float* q = dynamic_shared();
  float* sum = q + a.head_dim;
  float* p = sum + a.head_dim;
  const std::int64_t token = blockIdx.x, sample = blockIdx.z;
  const int head = static_cast<int>(blockIdx.y), me = static_cast<int>(threadIdx.x);
  const std::int64_t seen = a.first + token + 1, row = a.row_of(sample, head / (a.heads / a.kv_heads), 0);
  const std::int64_t begin = a.window > 0 && seen > a.window ? seen - a.window : 0;
  for (int i = me; i < a.head_dim; i += kThreads) {
    q[i] = a.scale * to_float(qkv[a.packed_at(sample, token, head) + i]);
    sum[i] = 0.0f;
  }
  float max = -FLT_MAX, total = 0.0f;  // the same in all threads
  for (std::int64_t first = begin; first < seen; first += kThreads) {
    const int count = seen - first < kThreads ? static_cast<int>(seen - first) : kThreads;
    __syncthreads();  // q is written, and the previous tile has been read
    if (me < count) {
      const T* k = keys + row + (first + me) * a.head_dim;
      float score = 0.0f;
      for (int i = 0; i < a.head_dim; ++i) score += q[i] * to_float(k[i]);
      p[me] = score;
    }
    __syncthreads();
    float new_max = max;
    for (int j = 0; j < count; ++j) new_max = fmaxf(new_max, p[j]);
    const float correction = expf(max - new_max);
    max = new_max;
    __syncthreads();
    if (me < count) p[me] = expf(p[me] - max);
    __syncthreads();
    total *= correction;
    for (int j = 0; j < count; ++j) total += p[j];
    for (int i = me; i < a.head_dim; i += kThreads) {
      float x = sum[i] * correction;
      for (int j = 0; j < count; ++j) x += p[j] * to_float(values[row + (first + j) * a.head_dim + i]);
      sum[i] = x;
    }
  }
  for (int i = me; i < a.head_dim; i += kThreads) {  // the elements that this thread summed
    out[((sample * a.tokens + token) * a.heads + head) * a.head_dim + i] = from_float<T>(sum[i] / total);
  }
}

}  // namespace

void run_op(const KernelContext& exec, const AttentionCachedArgs& args) {
  check_dtype("attention_cached", args.qkv.dtype, {args.keys, args.values, args.out});
  const PackedHeads heads = packed_heads(args);
  const CachedProblem a{.tokens = args.qkv.shape[1],
                        .capacity = args.keys.shape[2],
                        .first = args.first,
                        .window = args.window,
                        .heads = args.num_heads,
                        .kv_heads = static_cast<int>(heads.keys),
                        .head_dim = static_cast<int>(heads.dim),
                        .scale = args.scale};
  assert(a.first + a.tokens <= a.capacity);
  if (args.qkv.num_elems() == 0) return;
  const auto grid = [&](int num_heads) {
    return dim3(static_cast<unsigned>(a.tokens), static_cast<unsigned>(num_heads),
                static_cast<unsigned>(args.qkv.shape[0]));
  };
  const auto shared = static_cast<std::size_t>(2 * a.head_dim + kThreads) * sizeof(float);
  for_float_type("attention_cached", args.qkv.dtype, [&]<class T>(T) {
    launch(exec, "attention_cached", grid(a.kv_heads), kThreads, 0, keep_rows_kernel<T>, a, args.qkv.as<T>(),
           args.keys.as<T>(), args.values.as<T>());
    if (!args.out.defined()) return;
    launch(exec, "attention_cached", grid(a.heads), kThreads, shared, attend_kernel<T>, a, args.qkv.as<T>(),
           args.keys.as<T>(), args.values.as<T>(), args.out.as<T>());
  });
}

}  // namespace trireme::cuda
