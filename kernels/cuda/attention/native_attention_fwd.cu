// Attention without a [T, T] matrix (Dao et al. 2022). A block holds a tile of queries and iterates over the
// keys, with a running maximum and sum of exponentials per row.
#include <cassert>
#include <cfloat>

#include "kernels/cuda/attention/attention_launch.cuh"
#include "kernels/cuda/attention/mma_attention.h"
#include "kernels/cuda/attention/native_attention.h"
#include "kernels/cuda/dynamic_shared.cuh"

namespace trireme::cuda {
namespace {

template <int B, int D>
constexpr std::size_t fwd_shared_bytes() {
  return (3 * kTileFloats<B, D> + kTileFloats<B, B>)*sizeof(float);
}

template <class T, int B, int D, bool kDropout>
__global__ void __launch_bounds__(kTileThreads, kTileBlocks<D>)
    attention_fwd_kernel(AttentionProblem a, const T* qkv, T* out, float* lse) {
  constexpr int R = B / kTileSide;
  float* queries = dynamic_shared();
  float* keys = queries + kTileFloats<B, D>;
  float* values = keys + kTileFloats<B, D>;
  float* probabilities = values + kTileFloats<B, D>;
  const int ty = threadIdx.x / kTileSide, tx = threadIdx.x % kTileSide;
  const std::int64_t head = blockIdx.y, sample = blockIdx.z, kv_head = head / a.group();
  // The longest rows of a causal mask come first, so that short ones fill the gaps at the end.
  const std::int64_t first_query = (std::int64_t{gridDim.x} - 1 - blockIdx.x) * B;
  const TokenRange seen = documents_of_tile<B>(a, sample, first_query);
  const std::int64_t end = a.causal && first_query + B < seen.end ? first_query + B : seen.end;

  load_tiles<B, D>(a, {TileSource<T>{packed_rows(qkv, a, sample, head), first_query, queries}});
  float sum[R][OwnCols<D>::kCount] = {};
  float max[R], exp_sum[R];  // exp_sum: the thread's own columns only
#pragma unroll
  for (int i = 0; i < R; ++i) {
    max[i] = -FLT_MAX;  // not infinity: infinity minus itself is NaN
    exp_sum[i] = 0.0f;
  }
  for (std::int64_t first_key = seen.first; first_key < end; first_key += B) {
    __syncthreads();  // the previous tiles have been read
    load_tiles<B, D>(a, {TileSource<T>{key_rows(qkv, a, sample, kv_head), first_key, keys},
                         TileSource<T>{value_rows(qkv, a, sample, kv_head), first_key, values}});
    __syncthreads();
    float p[R][R];
    dot_rows<D, R>(queries, keys, p);
#pragma unroll
    for (int i = 0; i < R; ++i) {
      const std::int64_t query = first_query + ty * R + i;
      float new_max = max[i];
#pragma unroll
      for (int j = 0; j < R; ++j) {
        const bool visible = is_visible(a, sample, query, first_key + tx + kTileSide * j);
        p[i][j] = visible ? scaled_score(a, p[i][j]) : -INFINITY;
        new_max = fmaxf(new_max, p[i][j]);
      }
      new_max = row_max(new_max);
      const float correction = expf(max[i] - new_max);
      max[i] = new_max;
      exp_sum[i] *= correction;
#pragma unroll
      for (int j = 0; j < R; ++j) {
        p[i][j] = expf(p[i][j] - new_max);
        exp_sum[i] += p[i][j];
        p[i][j] *= dropout_weight<kDropout>(a, sample, head, query, first_key + tx + kTileSide * j);
      }
#pragma unroll
      for (int c = 0; c < OwnCols<D>::kCount; ++c) sum[i][c] *= correction;
    }
    share_product<B, R>(probabilities, p);
    add_product<B, D, R>(probabilities, values, sum);
  }
#pragma unroll
  for (int i = 0; i < R; ++i) {
    const std::int64_t query = first_query + ty * R + i;
    const float total = row_sum(exp_sum[i]);
    if (query >= a.seq_len) continue;
    store_row<D, T>(a, head_rows(out, a, sample, head), query, sum[i], 1.0f / total);
    if (tx == 0) lse[(sample * a.num_heads + head) * a.seq_len + query] = max[i] + logf(total);
  }
}

}  // namespace

void native_attention_fwd(const KernelContext& exec, const AttentionFwdArgs& args) {
  const PackedHeads heads = packed_heads(args);
  const std::int64_t samples = args.qkv.shape[0], seq_len = args.qkv.shape[1], head_dim = heads.dim;
  assert(args.out.num_elems() == samples * seq_len * heads.width());
  assert(args.lse.num_elems() == samples * heads.queries * seq_len);
  check_dtype("attention_fwd", args.qkv.dtype, {args.out});
  check_dtype("attention_fwd", DType::kFloat32, {args.lse});
  if (args.qkv.num_elems() == 0) return;
  if (suits_tensor_cores(exec, args.qkv.dtype)) return mma_attention_fwd(exec, args);
  for_float_type("attention_fwd", args.qkv.dtype, [&]<class T>(T) {
    const bool packed = rows_are_packable(head_dim, sizeof(T), {args.qkv.data, args.out.data});
    const AttentionProblem a = problem_of(args, packed);
    const auto bytes_of = [](auto tile) { return fwd_shared_bytes<tile.B, tile.D>(); };
    for_tile(exec, "attention_fwd", head_dim, args.dropout_p > 0.0f, bytes_of, [&](auto tile) {
      constexpr int B = decltype(tile)::B, D = decltype(tile)::D;
      launch_tiles(exec, "attention_fwd", {ceil_div(seq_len, B), heads.queries, samples}, kTileThreads,
                   fwd_shared_bytes<B, D>(), attention_fwd_kernel<T, B, D, decltype(tile)::kDropout>, a,
                   args.qkv.as<T>(), args.out.as<T>(), args.lse.as<float>());
    });
  });
}

}  // namespace trireme::cuda
