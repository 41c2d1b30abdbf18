// Backward of attention. With P = exp(scale S - lse), S = Q K^T, W the dropout weights and
// delta = rowsum(dO * O):  dV = (W P)^T dO,  dS = scale P (W dO V^T - delta),  dQ = dS K,  dK = dS^T Q.
//
// Blocks that own keys sum the gradients of keys and values over queries. Blocks that own queries sum the
// gradients of queries over keys. So S is computed twice, and no two blocks write to the same element. If
// several query heads read one key head, the block of the keys processes them in order.
#include <cassert>

#include "kernels/cuda/attention/attention_gradients.cuh"
#include "kernels/cuda/attention/attention_launch.cuh"
#include "kernels/cuda/attention/mma_attention.h"
#include "kernels/cuda/attention/native_attention.h"
#include "kernels/cuda/device/workspace.h"
#include "kernels/cuda/dynamic_shared.cuh"

namespace trireme::cuda {
namespace {

constexpr int kDeltaWarps = 8;

template <int B, int D>
constexpr std::size_t bwd_shared_bytes() {
  return (4 * kTileFloats<B, D> + kTileFloats<B, B> + 2 * B) * sizeof(float);
}

// delta[sample, head, t]. One warp per row of a head.
template <class T>
__global__ void attention_delta_kernel(AttentionProblem a, const T* dout, const T* out, float* delta,
                                       std::int64_t num_rows) {
  const std::int64_t index = std::int64_t{blockIdx.x} * kDeltaWarps + threadIdx.x / kWarp;
  if (index >= num_rows) return;  // a whole warp
  const std::int64_t t = index % a.num_queries, head = index / a.num_queries % a.num_heads,
                     sample = index / a.num_queries / a.num_heads;
  const HeadRows<const T> x = head_rows(dout, a, sample, head), y = head_rows(out, a, sample, head);
  float sum = 0.0f;
  for (int c = threadIdx.x % kWarp; c < a.head_dim; c += kWarp) {
    sum += to_float(x.first[t * x.pitch + c]) * to_float(y.first[t * y.pitch + c]);
  }
  sum = warp_sum(sum);
  if (threadIdx.x % kWarp == 0) delta[index] = sum;
}

// Loads lse or delta of queries [first, first + B), for all threads.
template <int B>
__device__ void load_row_values(const AttentionProblem& a, const float* from, std::int64_t first, float* to) {
  for (int i = threadIdx.x; i < B; i += kTileThreads)
    to[i] = first + i < a.num_queries ? from[first + i] : 0.0f;
}

template <class T, int B, int D, bool kDropout>
__global__ void __launch_bounds__(kTileThreads, kTileBlocks<D>)
    attention_bwd_keys_kernel(AttentionProblem a, BwdPointers<T> x) {
  constexpr int R = B / kTileSide;
  float* keys = dynamic_shared();
  float* values = keys + kTileFloats<B, D>;
  float* queries = values + kTileFloats<B, D>;
  float* douts = queries + kTileFloats<B, D>;
  float* shared_product = douts + kTileFloats<B, D>;
  float* lse = shared_product + kTileFloats<B, B>;
  float* delta = lse + B;
  const int ty = threadIdx.x / kTileSide, tx = threadIdx.x % kTileSide;
  const std::int64_t kv_head = blockIdx.y, sample = blockIdx.z, first_key = std::int64_t{blockIdx.x} * B;
  const std::int64_t first_head = kv_head * a.group();
  // Only queries of the same documents see these keys.
  const TokenRange seen = queries_of_tile<B>(a, sample, first_key);
  const std::int64_t first_tile = a.causal ? first_key : seen.first;

  load_tiles<B, D>(a, {TileSource<T>{key_head(x.in.k, a, sample, kv_head), first_key, keys},
                       TileSource<T>{key_head(x.in.v, a, sample, kv_head), first_key, values}});
  float dkeys[R][OwnCols<D>::kCount] = {}, dvalues[R][OwnCols<D>::kCount] = {};
  for (std::int64_t head = first_head; head < first_head + a.group(); ++head) {
    const std::int64_t row_values = (sample * a.num_heads + head) * a.num_queries;
    for (std::int64_t first_query = first_tile; first_query < seen.end; first_query += B) {
      __syncthreads();  // the previous tiles have been read
      load_tiles<B, D>(a, {TileSource<T>{query_head(x.in.q, a, sample, head), first_query, queries},
                           TileSource<T>{head_rows(x.dout, a, sample, head), first_query, douts}});
      load_row_values<B>(a, x.lse + row_values, first_query, lse);
      load_row_values<B>(a, x.delta + row_values, first_query, delta);
      __syncthreads();
      float weighted[R][R], dscores[R][R];
      dot_rows<D, R>(keys, queries, weighted);
      dot_rows<D, R>(values, douts, dscores);
#pragma unroll
      for (int i = 0; i < R; ++i) {
#pragma unroll
        for (int j = 0; j < R; ++j) {
          const int query = tx + kTileSide * j;
          const Gradients g =
              gradients_at<kDropout>(a, sample, head, first_query + query, first_key + ty * R + i,
                                     weighted[i][j], dscores[i][j], lse[query], delta[query]);
          weighted[i][j] = g.weighted;
          dscores[i][j] = g.dscore;
        }
      }
      share_product<B, R>(shared_product, weighted);
      add_product<B, D, R>(shared_product, douts, dvalues);
      share_product<B, R>(shared_product, dscores);
      add_product<B, D, R>(shared_product, queries, dkeys);
    }
  }
#pragma unroll
  for (int i = 0; i < R; ++i) {
    const std::int64_t key = first_key + ty * R + i;
    if (key >= a.num_keys) continue;
    store_row<D, T>(a, key_head(x.gradients.k, a, sample, kv_head), key, dkeys[i], 1.0f);
    store_row<D, T>(a, key_head(x.gradients.v, a, sample, kv_head), key, dvalues[i], 1.0f);
  }
}

template <class T, int B, int D, bool kDropout>
__global__ void __launch_bounds__(kTileThreads, kTileBlocks<D>)
    attention_bwd_queries_kernel(AttentionProblem a, BwdPointers<T> x) {
  constexpr int R = B / kTileSide;
  float* queries = dynamic_shared();
  float* douts = queries + kTileFloats<B, D>;
  float* keys = douts + kTileFloats<B, D>;
  float* values = keys + kTileFloats<B, D>;
  float* shared_product = values + kTileFloats<B, D>;
  float* lse = shared_product + kTileFloats<B, B>;
  float* delta = lse + B;
  const int ty = threadIdx.x / kTileSide, tx = threadIdx.x % kTileSide;
  const std::int64_t head = blockIdx.y, sample = blockIdx.z, kv_head = head / a.group();
  // The longest rows of a causal mask come first.
  const std::int64_t first_query = (std::int64_t{gridDim.x} - 1 - blockIdx.x) * B;
  const TokenRange seen = keys_of_tile<B>(a, sample, first_query);
  const std::int64_t end = a.causal && first_query + B < seen.end ? first_query + B : seen.end;
  const std::int64_t row_values = (sample * a.num_heads + head) * a.num_queries;

  load_tiles<B, D>(a, {TileSource<T>{query_head(x.in.q, a, sample, head), first_query, queries},
                       TileSource<T>{head_rows(x.dout, a, sample, head), first_query, douts}});
  load_row_values<B>(a, x.lse + row_values, first_query, lse);
  load_row_values<B>(a, x.delta + row_values, first_query, delta);
  float dqueries[R][OwnCols<D>::kCount] = {};
  for (std::int64_t first_key = seen.first; first_key < end; first_key += B) {
    __syncthreads();  // the previous tiles have been read
    load_tiles<B, D>(a, {TileSource<T>{key_head(x.in.k, a, sample, kv_head), first_key, keys},
                         TileSource<T>{key_head(x.in.v, a, sample, kv_head), first_key, values}});
    __syncthreads();
    float scores[R][R], dscores[R][R];
    dot_rows<D, R>(queries, keys, scores);
    dot_rows<D, R>(douts, values, dscores);
#pragma unroll
    for (int i = 0; i < R; ++i) {
      const int query = ty * R + i;
#pragma unroll
      for (int j = 0; j < R; ++j) {
        dscores[i][j] =
            gradients_at<kDropout>(a, sample, head, first_query + query, first_key + tx + kTileSide * j,
                                   scores[i][j], dscores[i][j], lse[query], delta[query])
                .dscore;
      }
    }
    share_product<B, R>(shared_product, dscores);
    add_product<B, D, R>(shared_product, keys, dqueries);
  }
#pragma unroll
  for (int i = 0; i < R; ++i) {
    const std::int64_t query = first_query + ty * R + i;
    if (query < a.num_queries)
      store_row<D, T>(a, query_head(x.gradients.q, a, sample, head), query, dqueries[i], 1.0f);
  }
}

template <class Args>
void run_bwd(const KernelContext& exec, const Args& args) {
  const AttentionExtents e = extents_of(args);
  assert(args.dout.num_elems() == e.samples * e.num_queries * e.heads.width());
  check_dtype(Args::kName, DType::kFloat32, {args.lse});
  if (e.is_empty()) return;
  const std::int64_t num_rows = e.samples * e.heads.queries * e.num_queries;
  const Workspace delta(exec, static_cast<std::size_t>(num_rows) * sizeof(float));
  for_float_type(Args::kName, e.dtype, [&]<class T>(T) {
    const BwdPointers<T> x{.dout = args.dout.template as<T>(),
                           .in = inputs_of<T>(args),
                           .lse = args.lse.template as<float>(),
                           .delta = delta.as<float>(),
                           .gradients = gradients_of<T>(args)};
    const bool packed =
        rows_are_packable(e.heads.dim, sizeof(T),
                          {x.in.q, x.in.k, x.in.v, x.dout, x.gradients.q, x.gradients.k, x.gradients.v});
    const AttentionProblem a = problem_of(args, packed);
    launch(exec, Args::kName, grid_of(ceil_div(num_rows, kDeltaWarps)), kDeltaWarps * kWarp, 0,
           attention_delta_kernel<T>, a, x.dout, args.out.template as<T>(), delta.as<float>(), num_rows);
    if (suits_tensor_cores(exec, e.dtype)) return mma_attention_bwd(exec, args, delta.as<float>());
    const auto bytes_of = [](auto tile) { return bwd_shared_bytes<tile.B, tile.D>(); };
    for_tile(exec, Args::kName, e.heads.dim, has_dropout(args), bytes_of, [&](auto tile) {
      constexpr int B = decltype(tile)::B, D = decltype(tile)::D;
      launch_tiles(exec, Args::kName, {ceil_div(e.num_keys, B), e.heads.keys, e.samples}, kTileThreads,
                   bwd_shared_bytes<B, D>(), attention_bwd_keys_kernel<T, B, D, decltype(tile)::kDropout>, a,
                   x);
      launch_tiles(exec, Args::kName, {ceil_div(e.num_queries, B), e.heads.queries, e.samples}, kTileThreads,
                   bwd_shared_bytes<B, D>(), attention_bwd_queries_kernel<T, B, D, decltype(tile)::kDropout>,
                   a, x);
    });
  });
}

}  // namespace

void native_attention_bwd(const KernelContext& exec, const AttentionBwdArgs& args) {
  assert(args.dqkv.num_elems() == args.qkv.num_elems());
  check_dtype("attention_bwd", args.qkv.dtype, {args.dout, args.out, args.dqkv});
  run_bwd(exec, args);
}

void native_attention_bwd(const KernelContext& exec, const CrossAttentionBwdArgs& args) {
  assert(args.dq.num_elems() == args.q.num_elems() && args.dk.num_elems() == args.k.num_elems());
  assert(args.v.num_elems() == args.k.num_elems() && args.dv.num_elems() == args.k.num_elems());
  check_dtype("cross_attention_bwd", args.q.dtype,
              {args.k, args.v, args.dout, args.out, args.dq, args.dk, args.dv});
  run_bwd(exec, args);
}

}  // namespace trireme::cuda
