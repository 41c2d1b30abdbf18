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
    attention_fwd_kernel(AttentionProblem a, QkvPointers<const T> x, T* out, float* lse) {
  constexpr int R = B / kTileSide;
  float* queries = dynamic_shared();
  float* keys = queries + kTileFloats<B, D>;
  float* values = keys + kTileFloats<B, D>;
  float* probabilities = values + kTileFloats<B, D>;
  const int ty = threadIdx.x / kTileSide, tx = threadIdx.x % kTileSide;
  const std::int64_t head = blockIdx.y, sample = blockIdx.z, kv_head = head / a.group();
  // The longest rows of a causal mask come first, so that short ones fill the gaps at the end.
  const std::int64_t first_query = (std::int64_t{gridDim.x} - 1 - blockIdx.x) * B;
  const TokenRange seen = keys_of_tile<B>(a, sample, first_query);
  const std::int64_t end = a.causal && first_query + B < seen.end ? first_query + B : seen.end;

  load_tiles<B, D>(a, {TileSource<T>{query_head(x.q, a, sample, head), first_query, queries}});
  float sum[R][OwnCols<D>::kCount] = {};
  float max[R], exp_sum[R];  // exp_sum: the thread's own columns only
#pragma unroll
  for (int i = 0; i < R; ++i) {
    max[i] = -FLT_MAX;  // not infinity: infinity minus itself is NaN
    exp_sum[i] = 0.0f;
  }
  for (std::int64_t first_key = seen.first; first_key < end; first_key += B) {
    __syncthreads();  // the previous tiles have been read
    load_tiles<B, D>(a, {TileSource<T>{key_head(x.k, a, sample, kv_head), first_key, keys},
                         TileSource<T>{key_head(x.v, a, sample, kv_head), first_key, values}});
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
    if (query >= a.num_queries) continue;
    store_row<D, T>(a, head_rows(out, a, sample, head), query, sum[i], 1.0f / total);
    if (tx == 0) lse[(sample * a.num_heads + head) * a.num_queries + query] = max[i] + logf(total);
  }
}

template <class Args>
void run_fwd(const KernelContext& exec, const Args& args) {
  const AttentionExtents e = extents_of(args);
  assert(args.out.num_elems() == e.samples * e.num_queries * e.heads.width());
  assert(args.lse.num_elems() == e.samples * e.heads.queries * e.num_queries);
  check_dtype(Args::kName, DType::kFloat32, {args.lse});
  if (e.is_empty()) return;
  if (suits_tensor_cores(exec, e.dtype)) return mma_attention_fwd(exec, args);
  for_float_type(Args::kName, e.dtype, [&]<class T>(T) {
    const QkvPointers<const T> x = inputs_of<T>(args);
    const bool packed = rows_are_packable(e.heads.dim, sizeof(T), {x.q, x.k, x.v, args.out.data});
    const AttentionProblem a = problem_of(args, packed);
    const auto bytes_of = [](auto tile) { return fwd_shared_bytes<tile.B, tile.D>(); };
    for_tile(exec, Args::kName, e.heads.dim, has_dropout(args), bytes_of, [&](auto tile) {
      constexpr int B = decltype(tile)::B, D = decltype(tile)::D;
      launch_tiles(exec, Args::kName, {ceil_div(e.num_queries, B), e.heads.queries, e.samples}, kTileThreads,
                   fwd_shared_bytes<B, D>(), attention_fwd_kernel<T, B, D, decltype(tile)::kDropout>, a, x,
                   args.out.template as<T>(), args.lse.template as<float>());
    });
  });
}

}  // namespace

void native_attention_fwd(const KernelContext& exec, const AttentionFwdArgs& args) {
  check_dtype("attention_fwd", args.qkv.dtype, {args.out});
  run_fwd(exec, args);
}

void native_attention_fwd(const KernelContext& exec, const CrossAttentionFwdArgs& args) {
  assert(args.v.num_elems() == args.k.num_elems());
  check_dtype("cross_attention_fwd", args.q.dtype, {args.k, args.v, args.out});
  run_fwd(exec, args);
}

}  // namespace trireme::cuda
