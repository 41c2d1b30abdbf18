// The mean of each channel in a chunk of rows, and the sum of squares about it: see [Note: batch statistics
// on cuda] in batch_norm_fwd.cu.
#pragma once

#include "kernels/cuda/norm/column_tile.cuh"
#include "kernels/cuda/pack.cuh"

namespace trireme::cuda {

inline constexpr int kMomentRows = 4;  // per thread, in flight

// Values of N columns minus the first value of each column.
template <class T, int N>
struct Differences {
  float shift[N] = {}, sum[N] = {}, squares[N] = {};

  __device__ void add(const Pack<T, N>& row) {
#pragma unroll
    for (int i = 0; i < N; ++i) {
      const float apart = to_float(row.elems[i]) - shift[i];
      sum[i] += apart;
      squares[i] = fmaf(apart, apart, squares[i]);
    }
  }
};

// moments[chunk]: means [cols], then sums of squares about them [cols]. Reads x once.
template <class T, int N>
__global__ void __launch_bounds__(kThreads) moments_kernel(RowChunks chunks, const T* x, float* moments) {
  __shared__ TileValues<N> means, squares;
  const TileShare own = tile_share<N, Order::kLastToFirst>(chunks);
  Differences<T, N> own_rows;
  if (own.has_columns && own.first < own.last) {
    const T* at = x + own.first * chunks.cols + own.col;
    const std::int64_t stride = own.step * chunks.cols;
    load<N>(at, own_rows.shift);
    int rest = own.rows_of(threadIdx.y);
    for (; rest >= kMomentRows; rest -= kMomentRows, at += kMomentRows * stride) {
      Pack<T, N> held[kMomentRows];
#pragma unroll
      for (int r = 0; r < kMomentRows; ++r) held[r] = load_pack<N>(at + r * stride);
#pragma unroll
      for (int r = 0; r < kMomentRows; ++r) own_rows.add(held[r]);
    }
    for (; rest > 0; --rest, at += stride) own_rows.add(load_pack<N>(at));
    const float share = 1.0f / static_cast<float>(own.rows_of(threadIdx.y));
#pragma unroll
    for (int i = 0; i < N; ++i) {
      const float mean = own_rows.sum[i] * share;  // of the differences
      own_rows.squares[i] -= own_rows.sum[i] * mean;
      own_rows.shift[i] += mean;
    }
  }
  means.put(own_rows.shift);
  squares.put(own_rows.squares);
  __syncthreads();
  float* const out = moments + 2 * own.chunk * chunks.cols + own.tile_col;
  const int threads = own.rows < own.step ? own.rows : own.step;  // threads that have rows
  for_tile_columns<N>(chunks, own, [&](int c) {
    const float shift = means.at(0, c);
    float mean = 0.0f, square = 0.0f;
#pragma unroll 8
    for (int y = 1; y < threads; ++y) mean += static_cast<float>(own.rows_of(y)) * (means.at(y, c) - shift);
    mean = shift + mean / static_cast<float>(own.rows);
#pragma unroll 8
    for (int y = 0; y < threads; ++y) {
      const float apart = means.at(y, c) - mean;
      square += squares.at(y, c) + static_cast<float>(own.rows_of(y)) * apart * apart;
    }
    out[c] = mean;
    out[chunks.cols + c] = square;
  });
}

}  // namespace trireme::cuda
