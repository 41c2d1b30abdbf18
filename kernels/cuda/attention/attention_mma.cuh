// The products of attention's tiles on tensor cores.
//
// [Note: attention on tensor cores] A warp computes 16 rows of a product. In a [16, 8] part of it, lane 4 g +
// t holds columns 2 t and 2 t + 1 of rows g and g + 8 (mma_tf32). A product that is the left factor of the
// next one stays in registers. An instruction sums over 8 factors in any order, so positions t and t + 4 may
// stand for columns 2 t and 2 t + 1; the right factor's rows are read in the matching order. Tiles are padded
// as for the plain cores ([Note: attention tiles]), so that a warp's reads of either kind touch 32 banks.
#pragma once

#include "kernels/cuda/attention/attention_tile.cuh"
#include "kernels/cuda/attention/tf32_mma.cuh"

namespace trireme::cuda {

inline constexpr int kQuad = 4;  // lanes that share a row

/// Threads of a block in which each warp handles 16 rows of a tile of B.
template <int B>
inline constexpr int kMmaThreads = B / kMmaRows* kWarp;

/// Blocks of kMmaThreads threads that should share a multiprocessor; compare kTileBlocks.
template <int D>
inline constexpr int kMmaBlocks = D <= 64 ? 3 : 1;

/// A thread's position in its warp's fragments.
struct MmaLane {
  int warp, g, t;
};
__device__ inline MmaLane mma_lane() {
  const int thread = static_cast<int>(threadIdx.x), lane = thread % kWarp;
  return {thread / kWarp, lane / kQuad, lane % kQuad};
}

/// out = rows [16, D] of `x` times the transpose of rows [8 kTiles, D] of `y`. Both pointers are at the first
/// row.
template <MmaPrecision kPrecision, int D, int kTiles>
__device__ void mma_dot_rows(const float* x, const float* y, float (&out)[kTiles][4]) {
  constexpr int kPitch = D + kTilePad;
  const MmaLane lane = mma_lane();
#pragma unroll
  for (int n = 0; n < kTiles; ++n) {
#pragma unroll
    for (int e = 0; e < 4; ++e) out[n][e] = 0.0f;
  }
#pragma unroll 1
  for (int first = 0; first < D; first += kMmaDepth) {
    add_mma_product<kPrecision>(
        out,
        [&](int step, int i) {
          return x[(lane.g + i % 2 * 8) * kPitch + first + step * 8 + lane.t + i / 2 * 4];
        },
        [&](int step, int n, int i) {
          return y[(n * kMmaCols + lane.g) * kPitch + first + step * 8 + lane.t + i * 4];
        });
  }
}

/// sum += the warp's [16, B] product `p`, in registers, times `x` [B, D].
template <MmaPrecision kPrecision, int B, int D>
__device__ void mma_add_product(const float (&p)[B / kMmaCols][4], const float* x,
                                float (&sum)[D / kMmaCols][4]) {
  constexpr int kPitch = D + kTilePad;
  const MmaLane lane = mma_lane();
#pragma unroll
  for (int first = 0; first < B; first += kMmaDepth) {
    add_mma_product<kPrecision>(
        sum, [&](int step, int i) { return p[first / kMmaCols + step][i % 2 * 2 + i / 2]; },
        [&](int step, int n, int i) {
          return x[(first + step * 8 + 2 * lane.t + i) * kPitch + n * kMmaCols + lane.g];
        });
  }
}

/// sum += the transpose of columns [c, c + 16) of `p` [B, B], times columns [0, 8 kTiles) of `x` [B, D]. `p`
/// points to column c, `x` to its first column.
template <MmaPrecision kPrecision, int B, int D, int kTiles>
__device__ void mma_add_transposed(const float* p, const float* x, float (&sum)[kTiles][4]) {
  const MmaLane lane = mma_lane();
#pragma unroll 1
  for (int first = 0; first < B; first += kMmaDepth) {
    const int row = first + 2 * lane.t;
    add_mma_product<kPrecision>(
        sum,
        [&](int step, int i) { return p[(row + step * 8 + i / 2) * (B + kTilePad) + lane.g + i % 2 * 8]; },
        [&](int step, int n, int i) {
          return x[(row + step * 8 + i) * (D + kTilePad) + n * kMmaCols + lane.g];
        });
  }
}

/// Prepares a factor of the next product: rounds it if the tensor cores use tf32.
template <MmaPrecision kPrecision>
__device__ float mma_factor(float x) {
  if constexpr (kPrecision == MmaPrecision::kTf32) return round_to_tf32(x);
  return x;
}

/// Writes row `row` of a product's [16, 8 kTiles], times `factor`. `half` selects one of the lane's two rows.
/// `first_col` is the product's first column.
template <int kTiles, class T>
__device__ void store_mma_row(const AttentionProblem& a, HeadRows<T> rows, std::int64_t row, int half,
                              const float (&sum)[kTiles][4], float factor, int first_col = 0) {
  const MmaLane lane = mma_lane();
#pragma unroll
  for (int n = 0; n < kTiles; ++n) {
    const int col = first_col + n * kMmaCols + 2 * lane.t;
    T* out = rows.first + row * rows.pitch + col;
    const float v[2] = {sum[n][2 * half] * factor, sum[n][2 * half + 1] * factor};
    if (a.packed) {
      if (col < a.head_dim) store<2>(out, v);
    } else {
#pragma unroll
      for (int w = 0; w < 2; ++w) {
        if (col + w < a.head_dim) out[w] = from_float<T>(v[w]);
      }
    }
  }
}

/// The sum over the four lanes that share a row, with the same bits in each.
__device__ inline float quad_sum(float value) {
#pragma unroll
  for (int offset = kQuad / 2; offset > 0; offset /= 2) value += __shfl_xor_sync(kAllLanes, value, offset);
  return value;
}
__device__ inline float quad_max(float value) {
#pragma unroll
  for (int offset = kQuad / 2; offset > 0; offset /= 2) {
    value = fmaxf(value, __shfl_xor_sync(kAllLanes, value, offset));
  }
  return value;
}

}  // namespace trireme::cuda
