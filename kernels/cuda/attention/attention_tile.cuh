// Square tiles of attention in shared memory, and attention's two products.
//
// [Note: attention tiles] A block is 16 x 16 threads. Thread (ty, tx) owns R = B / 16 rows ty * R + i of a
// tile of B rows. In a [B, B] product it owns columns tx + 16 j; in a [B, D] product, D / 16 columns in runs
// of up to 4. A row thus belongs to 16 neighbouring lanes of one warp. Sums and maxima over a row are
// shuffles, and a row's threads exchange data through shared memory with a warp barrier only. Rows are padded
// by 4 floats, so that all accesses are 16 bytes wide and free of bank conflicts.
#pragma once

#include <functional>

#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/pack.cuh"
#include "kernels/cuda/reduce.cuh"

namespace trireme::cuda {

inline constexpr int kTileSide = 16;  // threads
inline constexpr int kTileThreads = kTileSide * kTileSide;
inline constexpr int kTilePad = 4;

/// Floats in a tile of B rows of D.
template <int B, int D>
inline constexpr int kTileFloats = B*(D + kTilePad);

/// Blocks that should share a multiprocessor, for __launch_bounds__. Two blocks hide each other's latency if
/// the registers suffice for both.
template <int D>
inline constexpr int kTileBlocks = D <= 64 ? 2 : 1;

/// The location of a head's rows in a tensor [B, T, ...].
template <class T>
struct HeadRows {
  T* first;            // row 0
  std::int64_t pitch;  // elements between rows
  std::int64_t count;
};

/// Queries, keys and values, or their gradients: parts of packed rows, or separate tensors.
template <class T>
struct QkvPointers {
  T *q, *k, *v;
};

/// The problem, common to all blocks.
struct AttentionProblem {
  std::int64_t num_queries, num_keys;  // of a sample; equal with a causal mask and with key_bounds
  std::int64_t q_pitch, kv_pitch;      // elements between rows
  int num_heads, num_kv_heads, head_dim;
  float scale;
  bool causal;
  float dropout_p;
  RngKey rng;
  std::int64_t first_sample;
  bool packed;                     // rows may be read 16 bytes at a time
  const std::int32_t* key_bounds;  // [B, T, 2], or null; see [Note: documents of a row]
  std::int64_t window;             // 0: none; see [Note: sliding window]

  /// Query heads that read one key head.
  __host__ __device__ int group() const { return num_heads / num_kv_heads; }
};

/// A range of a sample's tokens.
struct TokenRange {
  std::int64_t first, end;
};

/// The documents of the tile of B rows that begins at `first_row`, or all `num_tokens` of the other side. The
/// result's `first` is the start of a tile.
template <int B>
__device__ TokenRange documents_of_tile(const AttentionProblem& a, std::int64_t sample,
                                        std::int64_t first_row, std::int64_t num_tokens) {
  if (a.key_bounds == nullptr) return {0, num_tokens};
  const std::int64_t last = (first_row + B < num_tokens ? first_row + B : num_tokens) - 1;
  const std::int32_t* bounds = a.key_bounds + sample * num_tokens * 2;
  return {bounds[2 * first_row] / B * B, bounds[2 * last + 1]};
}

/// A source of load_tiles(): rows [first, first + B) of a head.
template <class T>
struct TileSource {
  HeadRows<const T> rows;
  std::int64_t first;
  float* tile;
};

/// Concurrent loads per thread and tile.
inline constexpr int kTileLoads = 8;

/// Loads rows of each source as floats, mapped by `convert`, into shared memory; zeros beyond the rows and
/// head_dim. All kBlock threads of the block must call. Each thread issues its loads before its stores.
/// Otherwise the compiler assumes that a store may change a loaded value, and each load waits for the one
/// before.
template <int B, int D, int kBlock = kTileThreads, class T, int kTiles, class Convert = std::identity>
__device__ void load_tiles(const AttentionProblem& a, const TileSource<T> (&sources)[kTiles],
                           Convert convert = {}) {
  const auto run = [&]<int N>(std::integral_constant<int, N>) {
    constexpr int kPacksPerRow = D / N, kPacks = B * kPacksPerRow;
    constexpr int kRounds = (kPacks + kBlock - 1) / kBlock;
    constexpr int kBatch = kRounds < kTileLoads ? kRounds : kTileLoads;
#pragma unroll 1
    for (int round = 0; round < kRounds; round += kBatch) {
      const int first_index = static_cast<int>(threadIdx.x) + round * kBlock;
      Pack<T, N> packs[kTiles][kBatch];
#pragma unroll
      for (int t = 0; t < kTiles; ++t) {
#pragma unroll
        for (int i = 0; i < kBatch; ++i) {
          const int index = first_index + i * kBlock, col = index % kPacksPerRow * N;
          const std::int64_t row = sources[t].first + index / kPacksPerRow;
          packs[t][i] = {};
          if (index < kPacks && row < sources[t].rows.count && col < a.head_dim) {
            packs[t][i] = load_pack<N>(sources[t].rows.first + row * sources[t].rows.pitch + col);
          }
        }
      }
#pragma unroll
      for (int t = 0; t < kTiles; ++t) {
#pragma unroll
        for (int i = 0; i < kBatch; ++i) {
          const int index = first_index + i * kBlock;
          if (index >= kPacks) continue;
          float* out = sources[t].tile + index / kPacksPerRow * (D + kTilePad) + index % kPacksPerRow * N;
          float v[N];
#pragma unroll
          for (int e = 0; e < N; ++e) v[e] = convert(to_float(packs[t][i].elems[e]));
          if constexpr (N % 4 == 0) {
#pragma unroll
            for (int e = 0; e < N; e += 4) {
              const float quad[4] = {v[e], v[e + 1], v[e + 2], v[e + 3]};
              store<4>(out + e, quad);
            }
          } else {
            out[0] = v[0];
          }
        }
      }
    }
  };
  if (a.packed) {
    run(std::integral_constant<int, kPack<T>>{});
  } else {
    run(std::integral_constant<int, 1>{});
  }
}

/// out[i][j] = row ty * R + i of `x` times row tx + 16 j of `y`, both [B, D].
template <int D, int R>
__device__ void dot_rows(const float* x, const float* y, float (&out)[R][R]) {
  const int ty = threadIdx.x / kTileSide, tx = threadIdx.x % kTileSide;
#pragma unroll
  for (int i = 0; i < R; ++i) {
#pragma unroll
    for (int j = 0; j < R; ++j) out[i][j] = 0.0f;
  }
#pragma unroll 4
  for (int d = 0; d < D; d += 4) {
    float a[R][4], b[R][4];
#pragma unroll
    for (int i = 0; i < R; ++i) {
      load<4>(x + (ty * R + i) * (D + kTilePad) + d, a[i]);
      load<4>(y + (tx + kTileSide * i) * (D + kTilePad) + d, b[i]);
    }
#pragma unroll
    for (int i = 0; i < R; ++i) {
#pragma unroll
      for (int j = 0; j < R; ++j) {
#pragma unroll
        for (int e = 0; e < 4; ++e) out[i][j] += a[i][e] * b[j][e];
      }
    }
  }
}

/// The columns of a [B, D] product that a thread owns: kRuns runs of kWidth.
template <int D>
struct OwnCols {
  static constexpr int kCount = D / kTileSide;
  static constexpr int kWidth = kCount < 4 ? kCount : 4;
  static constexpr int kRuns = kCount / kWidth;
  /// First column of a run.
  __device__ static int col(int run) {
    return (run * kTileSide + static_cast<int>(threadIdx.x) % kTileSide) * kWidth;
  }
};

/// sum[i] += row ty * R + i of `p` [B, B] times `x` [B, D], in the thread's columns.
template <int B, int D, int R>
__device__ void add_product(const float* p, const float* x, float (&sum)[R][OwnCols<D>::kCount]) {
  using Cols = OwnCols<D>;
  const int ty = threadIdx.x / kTileSide;
#pragma unroll 2
  for (int k = 0; k < B; k += 4) {
    float weights[R][4];
#pragma unroll
    for (int i = 0; i < R; ++i) load<4>(p + (ty * R + i) * (B + kTilePad) + k, weights[i]);
#pragma unroll
    for (int e = 0; e < 4; ++e) {
#pragma unroll
      for (int run = 0; run < Cols::kRuns; ++run) {
        float v[Cols::kWidth];
        load<Cols::kWidth>(x + (k + e) * (D + kTilePad) + Cols::col(run), v);
#pragma unroll
        for (int i = 0; i < R; ++i) {
#pragma unroll
          for (int w = 0; w < Cols::kWidth; ++w) sum[i][run * Cols::kWidth + w] += weights[i][e] * v[w];
        }
      }
    }
  }
}

/// Writes the thread's part of a [B, B] product to `p`, for add_product by the threads of the same rows.
template <int B, int R>
__device__ void share_product(float* p, const float (&values)[R][R]) {
  const int ty = threadIdx.x / kTileSide, tx = threadIdx.x % kTileSide;
  __syncwarp();  // the previous content has been read
#pragma unroll
  for (int i = 0; i < R; ++i) {
#pragma unroll
    for (int j = 0; j < R; ++j) p[(ty * R + i) * (B + kTilePad) + tx + kTileSide * j] = values[i][j];
  }
  __syncwarp();
}

/// Writes the thread's columns of row `row`, times `factor`.
template <int D, class T>
__device__ void store_row(const AttentionProblem& a, HeadRows<T> rows, std::int64_t row,
                          const float (&sum)[OwnCols<D>::kCount], float factor) {
  using Cols = OwnCols<D>;
#pragma unroll
  for (int run = 0; run < Cols::kRuns; ++run) {
    T* out = rows.first + row * rows.pitch + Cols::col(run);
    float v[Cols::kWidth];
#pragma unroll
    for (int w = 0; w < Cols::kWidth; ++w) v[w] = sum[run * Cols::kWidth + w] * factor;
    if (a.packed) {
      if (Cols::col(run) < a.head_dim) store<Cols::kWidth>(out, v);
    } else {
#pragma unroll
      for (int w = 0; w < Cols::kWidth; ++w) {
        if (Cols::col(run) + w < a.head_dim) out[w] = from_float<T>(v[w]);
      }
    }
  }
}

/// The sum over the 16 lanes that share a row, with the same bits in each.
__device__ inline float row_sum(float value) {
#pragma unroll
  for (int offset = kTileSide / 2; offset > 0; offset /= 2)
    value += __shfl_xor_sync(kAllLanes, value, offset);
  return value;
}
__device__ inline float row_max(float value) {
#pragma unroll
  for (int offset = kTileSide / 2; offset > 0; offset /= 2) {
    value = fmaxf(value, __shfl_xor_sync(kAllLanes, value, offset));
  }
  return value;
}

/// The keys visible to the tile of B queries that begins at `first_query`, and more. `first` is the start of
/// a tile.
template <int B>
__device__ TokenRange keys_of_tile(const AttentionProblem& a, std::int64_t sample, std::int64_t first_query) {
  TokenRange keys = documents_of_tile<B>(a, sample, first_query, a.num_keys);
  const std::int64_t begin = first_query + 1 - a.window;
  if (a.window > 0 && begin > keys.first) keys.first = begin / B * B;
  return keys;
}

/// The queries that see a key of the tile of B keys that begins at `first_key`, and more. `first` is the
/// start of a tile.
template <int B>
__device__ TokenRange queries_of_tile(const AttentionProblem& a, std::int64_t sample,
                                      std::int64_t first_key) {
  TokenRange queries = documents_of_tile<B>(a, sample, first_key, a.num_queries);
  const std::int64_t end = first_key + B - 1 + a.window;
  if (a.window > 0 && end < queries.end) queries.end = end;
  return queries;
}

/// True when the probability of (query, key) is part of the sum.
__device__ inline bool is_visible(const AttentionProblem& a, std::int64_t sample, std::int64_t query,
                                  std::int64_t key) {
  if (query >= a.num_queries || key >= a.num_keys || (a.causal && key > query)) return false;
  if (a.window > 0 && key <= query - a.window) return false;
  if (a.key_bounds == nullptr) return true;
  const std::int32_t* bounds = a.key_bounds + (sample * a.num_queries + query) * 2;
  return key >= bounds[0] && key < bounds[1];
}

/// True when every query of a tile sees every key of another tile, so that is_visible() need not be called.
/// All threads of a block get the same answer.
template <int B>
__device__ bool sees_all(const AttentionProblem& a, std::int64_t first_query, std::int64_t first_key) {
  return a.key_bounds == nullptr && first_query + B <= a.num_queries && first_key + B <= a.num_keys &&
         (!a.causal || first_key + B - 1 <= first_query) &&
         (a.window == 0 || first_key > first_query + B - 1 - a.window);
}

/// Never contracted into a multiply-add, so that forward and backward subtract from the same bits.
__device__ inline float scaled_score(const AttentionProblem& a, float score) {
  return __fmul_rn(a.scale, score);
}

/// The factor of dropout for the probability of (query, key) of a head: 0 or 1 / (1 - p).
template <bool kDropout>
__device__ float dropout_weight(const AttentionProblem& a, std::int64_t sample, std::int64_t head,
                                std::int64_t query, std::int64_t key) {
  if constexpr (!kDropout) return 1.0f;
  const std::int64_t elem = (head * a.num_queries + query) * a.num_keys + key;
  const Philox4 bits =
      a.rng.draw(static_cast<std::uint32_t>(a.first_sample + sample), static_cast<std::uint32_t>(elem / 4));
  return uniform_from_bits(bits[static_cast<std::size_t>(elem % 4)]) >= a.dropout_p
             ? 1.0f / (1.0f - a.dropout_p)
             : 0.0f;
}

/// Rows of a head of queries.
template <class T>
__host__ __device__ HeadRows<T> query_head(T* q, const AttentionProblem& a, std::int64_t sample,
                                           std::int64_t head) {
  return {q + sample * a.num_queries * a.q_pitch + head * a.head_dim, a.q_pitch, a.num_queries};
}

/// Rows of a head of keys, or of values.
template <class T>
__host__ __device__ HeadRows<T> key_head(T* kv, const AttentionProblem& a, std::int64_t sample,
                                         std::int64_t kv_head) {
  return {kv + sample * a.num_keys * a.kv_pitch + kv_head * a.head_dim, a.kv_pitch, a.num_keys};
}

/// Rows of a head in [B, T, H D].
template <class T>
__host__ __device__ HeadRows<T> head_rows(T* x, const AttentionProblem& a, std::int64_t sample,
                                          std::int64_t head) {
  const std::int64_t width = std::int64_t{a.num_heads} * a.head_dim;
  return {x + sample * a.num_queries * width + head * a.head_dim, width, a.num_queries};
}

}  // namespace trireme::cuda
