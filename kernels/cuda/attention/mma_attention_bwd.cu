// Backward of attention on tensor cores. The names and the two kernels correspond to native_attention_bwd.cu.
// Like forward, both kernels compute scores with queries as rows, and so reproduce its bits.
#include "kernels/cuda/attention/attention_gradients.cuh"
#include "kernels/cuda/attention/attention_launch.cuh"
#include "kernels/cuda/attention/attention_mma.cuh"
#include "kernels/cuda/attention/mma_attention.h"

namespace trireme::cuda {
namespace {

template <int B, int D>
constexpr std::size_t mma_bwd_keys_shared_bytes() {
  return (4 * kTileFloats<B, D> + kTileFloats<B, B>)*sizeof(float);
}
template <int B, int D>
constexpr std::size_t mma_bwd_queries_shared_bytes() {
  return 4 * kTileFloats<B, D> * sizeof(float);
}

// lse and delta of the lane's two rows, `query` and `query` + 8.
struct QueryRows {
  float lse[2], delta[2];
};
template <class T>
__device__ QueryRows query_rows(const AttentionProblem& a, const BwdPointers<T>& x, std::int64_t sample,
                                std::int64_t head, std::int64_t query) {
  const std::int64_t first = (sample * a.num_heads + head) * a.num_queries;
  QueryRows rows{};
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    if (query + 8 * half >= a.num_queries) continue;
    rows.lse[half] = x.lse[first + query + 8 * half];
    rows.delta[half] = x.delta[first + query + 8 * half];
  }
  return rows;
}

// Turns scores and products dO V^T, with queries as rows, into W P and dS. kWhole: sees_all() is true.
template <bool kDropout, bool kWhole, int kTiles>
__device__ void to_gradients(const AttentionProblem& a, std::int64_t sample, std::int64_t head,
                             std::int64_t query, std::int64_t first_key, const QueryRows& rows,
                             float (&scores)[kTiles][4], float (&products)[kTiles][4]) {
  const std::int64_t key = first_key + 2 * mma_lane().t;
#pragma unroll
  for (int n = 0; n < kTiles; ++n) {
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      const Gradients g =
          gradients_at<kDropout, kWhole>(a, sample, head, query + e / 2 * 8, key + n * kMmaCols + e % 2,
                                         scores[n][e], products[n][e], rows.lse[e / 2], rows.delta[e / 2]);
      scores[n][e] = g.weighted;
      products[n][e] = g.dscore;
    }
  }
}

// Writes the warp's [16, 8 kTiles] of a [B, B] product to shared memory. `p` points to their first element.
template <MmaPrecision kPrecision, int B, int kTiles>
__device__ void share_mma_product(float* p, const float (&values)[kTiles][4]) {
  const MmaLane lane = mma_lane();
#pragma unroll
  for (int n = 0; n < kTiles; ++n) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const float pair[2] = {mma_factor<kPrecision>(values[n][2 * half]),
                             mma_factor<kPrecision>(values[n][2 * half + 1])};
      store<2>(p + (lane.g + 8 * half) * (B + kTilePad) + n * kMmaCols + 2 * lane.t, pair);
    }
  }
}

// Eight warps. Each has 16 query rows of a [B, B] product, and 16 key rows of a [B, D] product.
template <class T, MmaPrecision kPrecision, int B, int D, bool kDropout>
__global__ void __launch_bounds__(kTileThreads, kTileBlocks<D>)
    mma_attention_bwd_keys_kernel(AttentionProblem a, BwdPointers<T> x) {
  constexpr int kRowWarps = B / kMmaRows, kColWarps = kTileThreads / kWarp / kRowWarps;
  constexpr int kScoreTiles = B / kColWarps / kMmaCols, kTiles = D / kColWarps / kMmaCols;
  constexpr int kPitch = D + kTilePad;
  float* keys = dynamic_shared();
  float* values = keys + kTileFloats<B, D>;
  float* queries = values + kTileFloats<B, D>;
  float* douts = queries + kTileFloats<B, D>;
  float* shared_product = douts + kTileFloats<B, D>;
  const MmaLane lane = mma_lane();
  const int warp_row = lane.warp % kRowWarps * kMmaRows, warp_col = lane.warp / kRowWarps;
  const int score_col = warp_col * kScoreTiles * kMmaCols, first_col = warp_col * kTiles * kMmaCols;
  float* const own_product = shared_product + warp_row * (B + kTilePad) + score_col;
  const std::int64_t kv_head = blockIdx.y, sample = blockIdx.z, first_key = std::int64_t{blockIdx.x} * B;
  const std::int64_t first_head = kv_head * a.group();
  // Only queries of the same documents see these keys.
  const TokenRange seen = queries_of_tile<B>(a, sample, first_key);
  const std::int64_t first_tile = a.causal ? first_key : seen.first;
  const auto load = [&](const TileSource<T>(&sources)[2]) {
    load_tiles<B, D>(a, sources, [](float v) { return mma_factor<kPrecision>(v); });
  };

  load({{key_head(x.in.k, a, sample, kv_head), first_key, keys},
        {key_head(x.in.v, a, sample, kv_head), first_key, values}});
  float dkeys[kTiles][4] = {}, dvalues[kTiles][4] = {};
  for (std::int64_t head = first_head; head < first_head + a.group(); ++head) {
    for (std::int64_t first_query = first_tile; first_query < seen.end; first_query += B) {
      __syncthreads();  // the previous tiles have been read
      load({{query_head(x.in.q, a, sample, head), first_query, queries},
            {head_rows(x.dout, a, sample, head), first_query, douts}});
      const std::int64_t query = first_query + warp_row + lane.g;
      const QueryRows rows = query_rows(a, x, sample, head, query);
      __syncthreads();
      float weighted[kScoreTiles][4], dscores[kScoreTiles][4];
      mma_dot_rows<kPrecision, D>(queries + warp_row * kPitch, keys + score_col * kPitch, weighted);
      mma_dot_rows<kPrecision, D>(douts + warp_row * kPitch, values + score_col * kPitch, dscores);
      if (sees_all<B>(a, first_query, first_key)) {
        to_gradients<kDropout, true>(a, sample, head, query, first_key + score_col, rows, weighted, dscores);
      } else {
        to_gradients<kDropout, false>(a, sample, head, query, first_key + score_col, rows, weighted, dscores);
      }
      share_mma_product<kPrecision, B>(own_product, weighted);
      __syncthreads();
      mma_add_transposed<kPrecision, B, D>(shared_product + warp_row, douts + first_col, dvalues);
      __syncthreads();  // the weighted probabilities have been read
      share_mma_product<kPrecision, B>(own_product, dscores);
      __syncthreads();
      mma_add_transposed<kPrecision, B, D>(shared_product + warp_row, queries + first_col, dkeys);
    }
  }
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const std::int64_t key = first_key + warp_row + lane.g + 8 * half;
    if (key >= a.num_keys) continue;
    store_mma_row(a, key_head(x.gradients.k, a, sample, kv_head), key, half, dkeys, 1.0f, first_col);
    store_mma_row(a, key_head(x.gradients.v, a, sample, kv_head), key, half, dvalues, 1.0f, first_col);
  }
}

template <class T, MmaPrecision kPrecision, int B, int D, bool kDropout>
__global__ void __launch_bounds__(kMmaThreads<B>, kMmaBlocks<D>)
    mma_attention_bwd_queries_kernel(AttentionProblem a, BwdPointers<T> x) {
  constexpr int kTiles = B / kMmaCols, kPitch = D + kTilePad;
  float* queries = dynamic_shared();
  float* douts = queries + kTileFloats<B, D>;
  float* keys = douts + kTileFloats<B, D>;
  float* values = keys + kTileFloats<B, D>;
  const MmaLane lane = mma_lane();
  const int warp_row = lane.warp * kMmaRows;
  const std::int64_t head = blockIdx.y, sample = blockIdx.z, kv_head = head / a.group();
  // The longest rows of a causal mask come first.
  const std::int64_t first_query = (std::int64_t{gridDim.x} - 1 - blockIdx.x) * B;
  const std::int64_t query = first_query + warp_row + lane.g;  // and query + 8
  const TokenRange seen = keys_of_tile<B>(a, sample, first_query);
  const std::int64_t end = a.causal && first_query + B < seen.end ? first_query + B : seen.end;
  const auto load = [&](const TileSource<T>(&sources)[2]) {
    load_tiles<B, D, kMmaThreads<B>>(a, sources, [](float v) { return mma_factor<kPrecision>(v); });
  };

  load({{query_head(x.in.q, a, sample, head), first_query, queries},
        {head_rows(x.dout, a, sample, head), first_query, douts}});
  const QueryRows rows = query_rows(a, x, sample, head, query);
  float dqueries[D / kMmaCols][4] = {};
  for (std::int64_t first_key = seen.first; first_key < end; first_key += B) {
    __syncthreads();  // the previous tiles have been read
    load({{key_head(x.in.k, a, sample, kv_head), first_key, keys},
          {key_head(x.in.v, a, sample, kv_head), first_key, values}});
    __syncthreads();
    float scores[kTiles][4], dscores[kTiles][4];
    mma_dot_rows<kPrecision, D>(queries + warp_row * kPitch, keys, scores);
    mma_dot_rows<kPrecision, D>(douts + warp_row * kPitch, values, dscores);
    if (sees_all<B>(a, first_query, first_key)) {
      to_gradients<kDropout, true>(a, sample, head, query, first_key, rows, scores, dscores);
    } else {
      to_gradients<kDropout, false>(a, sample, head, query, first_key, rows, scores, dscores);
    }
#pragma unroll
    for (int e = 0; e < 4 * kTiles; ++e) {
      dscores[e / 4][e % 4] = mma_factor<kPrecision>(dscores[e / 4][e % 4]);
    }
    mma_add_product<kPrecision, B, D>(dscores, keys, dqueries);
  }
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const std::int64_t row = query + 8 * half;
    if (row >= a.num_queries) continue;
    store_mma_row(a, query_head(x.gradients.q, a, sample, head), row, half, dqueries, 1.0f);
  }
}

template <class T, MmaPrecision kPrecision, class Args>
void run_bwd(const KernelContext& exec, const Args& args, const float* delta) {
  const AttentionExtents e = extents_of(args);
  const BwdPointers<T> x{.dout = args.dout.template as<T>(),
                         .in = inputs_of<T>(args),
                         .lse = args.lse.template as<float>(),
                         .delta = delta,
                         .gradients = gradients_of<T>(args)};
  const AttentionProblem a = problem_of(
      args, rows_are_packable(e.heads.dim, sizeof(T),
                              {x.in.q, x.in.k, x.in.v, x.dout, x.gradients.q, x.gradients.k, x.gradients.v}));
  const auto bytes_of = [](auto tile) { return mma_bwd_keys_shared_bytes<tile.B, tile.D>(); };
  for_tile(exec, Args::kName, e.heads.dim, has_dropout(args), bytes_of, [&](auto tile) {
    constexpr int B = decltype(tile)::B, D = decltype(tile)::D;
    constexpr bool kDropout = decltype(tile)::kDropout;
    launch_tiles(exec, Args::kName, {ceil_div(e.num_keys, B), e.heads.keys, e.samples}, kTileThreads,
                 mma_bwd_keys_shared_bytes<B, D>(),
                 mma_attention_bwd_keys_kernel<T, kPrecision, B, D, kDropout>, a, x);
    launch_tiles(exec, Args::kName, {ceil_div(e.num_queries, B), e.heads.queries, e.samples}, kMmaThreads<B>,
                 mma_bwd_queries_shared_bytes<B, D>(),
                 mma_attention_bwd_queries_kernel<T, kPrecision, B, D, kDropout>, a, x);
  });
}

template <class Args>
void run_bwd(const KernelContext& exec, const Args& args, const float* delta) {
  for_mma_type(Args::kName, extents_of(args).dtype, args.math,
               [&]<class T, MmaPrecision kPrecision>(T, std::integral_constant<MmaPrecision, kPrecision>) {
                 run_bwd<T, kPrecision>(exec, args, delta);
               });
}

}  // namespace

void mma_attention_bwd(const KernelContext& exec, const AttentionBwdArgs& args, const float* delta) {
  run_bwd(exec, args, delta);
}

void mma_attention_bwd(const KernelContext& exec, const CrossAttentionBwdArgs& args, const float* delta) {
  run_bwd(exec, args, delta);
}

}  // namespace trireme::cuda
