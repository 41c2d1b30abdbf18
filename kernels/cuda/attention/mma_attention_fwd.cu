// Attention on tensor cores without a [T, T] matrix. Like native_attention_fwd.cu, with 16 queries per warp
// ([Note: attention on tensor cores] in attention_mma.cuh).
#include <cfloat>

#include "kernels/cuda/attention/attention_launch.cuh"
#include "kernels/cuda/attention/attention_mma.cuh"
#include "kernels/cuda/attention/mma_attention.h"
#include "kernels/cuda/device/slow_paths.h"
#include "kernels/cuda/tensor_cores.h"

namespace trireme::cuda {
namespace {

template <int B, int D>
constexpr std::size_t mma_fwd_shared_bytes() {
  return 3 * kTileFloats<B, D> * sizeof(float);
}

// The running softmax of the lane's two rows.
struct SoftmaxRows {
  float max[2] = {-FLT_MAX, -FLT_MAX};  // not infinity: infinity minus itself is NaN
  float exp_sum[2] = {};                // the lane's own columns only
};

// Turns scores of keys [first_key, ...) into unnormalized probabilities times dropout weights. `correction`
// rescales the sums so far. kWhole: sees_all() is true.
template <bool kDropout, bool kWhole, int kTiles>
__device__ void add_scores(const AttentionProblem& a, std::int64_t sample, std::int64_t head,
                           std::int64_t query, std::int64_t first_key, SoftmaxRows& rows,
                           float (&p)[kTiles][4], float (&correction)[2]) {
  const std::int64_t key = first_key + 2 * mma_lane().t;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    float new_max = rows.max[half];
#pragma unroll
    for (int e = 0; e < 2 * kTiles; ++e) {
      float& score = p[e / 2][2 * half + e % 2];
      const bool visible = kWhole || is_visible(a, sample, query + 8 * half, key + e / 2 * kMmaCols + e % 2);
      score = visible ? scaled_score(a, score) : -INFINITY;
      new_max = fmaxf(new_max, score);
    }
    new_max = quad_max(new_max);
    correction[half] = expf(rows.max[half] - new_max);
    rows.max[half] = new_max;
    rows.exp_sum[half] *= correction[half];
#pragma unroll
    for (int e = 0; e < 2 * kTiles; ++e) {
      float& score = p[e / 2][2 * half + e % 2];
      score = expf(score - new_max);
      rows.exp_sum[half] += score;
      score *= dropout_weight<kDropout>(a, sample, head, query + 8 * half, key + e / 2 * kMmaCols + e % 2);
    }
  }
}

template <class T, MmaPrecision kPrecision, int B, int D, bool kDropout>
__global__ void __launch_bounds__(kMmaThreads<B>, kMmaBlocks<D>)
    mma_attention_fwd_kernel(AttentionProblem a, QkvPointers<const T> x, T* out, float* lse) {
  float* queries = dynamic_shared();
  float* keys = queries + kTileFloats<B, D>;
  float* values = keys + kTileFloats<B, D>;
  const MmaLane lane = mma_lane();
  const std::int64_t head = blockIdx.y, sample = blockIdx.z, kv_head = head / a.group();
  // The longest rows of a causal mask come first, so that short ones fill the gaps at the end.
  const std::int64_t first_query = (std::int64_t{gridDim.x} - 1 - blockIdx.x) * B;
  const std::int64_t query = first_query + lane.warp * kMmaRows + lane.g;  // and query + 8
  const TokenRange seen = keys_of_tile<B>(a, sample, first_query);
  const std::int64_t end = a.causal && first_query + B < seen.end ? first_query + B : seen.end;
  const auto factor = [](float x) { return mma_factor<kPrecision>(x); };

  load_tiles<B, D, kMmaThreads<B>>(a, {TileSource<T>{query_head(x.q, a, sample, head), first_query, queries}},
                                   factor);
  float sum[D / kMmaCols][4] = {};
  SoftmaxRows rows;
  for (std::int64_t first_key = seen.first; first_key < end; first_key += B) {
    __syncthreads();  // the previous tiles have been read
    load_tiles<B, D, kMmaThreads<B>>(a,
                                     {TileSource<T>{key_head(x.k, a, sample, kv_head), first_key, keys},
                                      TileSource<T>{key_head(x.v, a, sample, kv_head), first_key, values}},
                                     factor);
    __syncthreads();
    float p[B / kMmaCols][4], correction[2];
    mma_dot_rows<kPrecision, D>(queries + lane.warp * kMmaRows * (D + kTilePad), keys, p);
    if (sees_all<B>(a, first_query, first_key)) {
      add_scores<kDropout, true>(a, sample, head, query, first_key, rows, p, correction);
    } else {
      add_scores<kDropout, false>(a, sample, head, query, first_key, rows, p, correction);
    }
#pragma unroll
    for (int e = 0; e < D / kMmaCols * 4; ++e) sum[e / 4][e % 4] *= correction[e % 4 / 2];
#pragma unroll
    for (int e = 0; e < B / kMmaCols * 4; ++e) p[e / 4][e % 4] = mma_factor<kPrecision>(p[e / 4][e % 4]);
    mma_add_product<kPrecision, B, D>(p, values, sum);
  }
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const std::int64_t row = query + 8 * half;
    const float total = quad_sum(rows.exp_sum[half]);
    if (row >= a.num_queries) continue;
    store_mma_row(a, head_rows(out, a, sample, head), row, half, sum, 1.0f / total);
    if (lane.t == 0) lse[(sample * a.num_heads + head) * a.num_queries + row] = rows.max[half] + logf(total);
  }
}

template <class T, MmaPrecision kPrecision, class Args>
void run_fwd(const KernelContext& exec, const Args& args) {
  const AttentionExtents e = extents_of(args);
  const QkvPointers<const T> x = inputs_of<T>(args);
  const AttentionProblem a =
      problem_of(args, rows_are_packable(e.heads.dim, sizeof(T), {x.q, x.k, x.v, args.out.data}));
  const auto bytes_of = [](auto tile) { return mma_fwd_shared_bytes<tile.B, tile.D>(); };
  for_tile(exec, Args::kName, e.heads.dim, has_dropout(args), bytes_of, [&](auto tile) {
    constexpr int B = decltype(tile)::B, D = decltype(tile)::D;
    launch_tiles(exec, Args::kName, {ceil_div(e.num_queries, B), e.heads.queries, e.samples}, kMmaThreads<B>,
                 mma_fwd_shared_bytes<B, D>(),
                 mma_attention_fwd_kernel<T, kPrecision, B, D, decltype(tile)::kDropout>, a, x,
                 args.out.template as<T>(), args.lse.template as<float>());
  });
}

template <class Args>
void run_fwd(const KernelContext& exec, const Args& args) {
  for_mma_type(Args::kName, extents_of(args).dtype, args.math,
               [&]<class T, MmaPrecision kPrecision>(T, std::integral_constant<MmaPrecision, kPrecision>) {
                 run_fwd<T, kPrecision>(exec, args);
               });
}

}  // namespace

bool suits_tensor_cores(const KernelContext& exec, DType dtype) {
  if (has_tensor_cores(exec)) return true;
  stream_of(exec).slow_paths().tell(fmt::format("{} attention without tensor cores of sm_80", name(dtype)),
                                    "the slower native kernel runs");
  return false;
}

void mma_attention_fwd(const KernelContext& exec, const AttentionFwdArgs& args) {
  run_fwd(exec, args);
}

void mma_attention_fwd(const KernelContext& exec, const CrossAttentionFwdArgs& args) {
  run_fwd(exec, args);
}

}  // namespace trireme::cuda
