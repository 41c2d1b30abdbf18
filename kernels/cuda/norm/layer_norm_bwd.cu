// Layer norm, backward. With xhat = (x - mean) rstd and g = gamma dy:
//   dx = rstd (g - mean(g) - xhat mean(g xhat)),  dgamma = sum over rows of dy xhat,  dbeta = sum of dy.
//
// One kernel reads rows of up to kMaxFusedCols elements from memory once. Its warps keep their share of
// dgamma and dbeta in registers. The second pass over a row reads the L1 cache. Keeping the row in registers
// would leave room for only one block per multiprocessor. Longer rows use one kernel for the columns and one
// for dx, which may overwrite dy. For RMS norm the mean pointer is null, and there is no mean(g) and no
// dbeta: its fused kernels for packed rows have no sums of dbeta, and half the registers for sums.
#include <cassert>

#include "kernels/cuda/device/workspace.h"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/matmul/column_sum.cuh"
#include "kernels/cuda/ops.h"
#include "kernels/cuda/pack.cuh"
#include "kernels/cuda/reduce.cuh"

namespace trireme::cuda {
namespace {

constexpr int kWarps = 8;
constexpr std::int64_t kFusedRows = 32;  // per block of the fused kernel
constexpr int kMaxFusedCols = 2048;
// Blocks of the fused kernel per multiprocessor, for lanes with `lane_sums` sums: as registers allow.
constexpr int blocks_for(int lane_sums) {
  return lane_sums <= 32 ? 3 : lane_sums <= 64 ? 2 : 1;
}

template <class T>
struct Pointers {
  const T *dy, *x, *gamma;
  float gamma_center;
  const float* mean;  // or null
  const float* rstd;
  const T* dx_add;  // or null
  T* dx;            // may be dy or dx_add
  float* partials;  // [chunk, num_sums, cols]: dgamma, dbeta

  __host__ __device__ bool centered() const { return mean != nullptr; }
  __host__ __device__ int num_sums() const { return centered() ? 2 : 1; }
  __device__ float mean_of(std::int64_t row) const { return centered() ? mean[row] : 0.0f; }
};

// Neighbouring elements of a row.
template <int N>
struct Elements {
  float dy[N], g[N], xhat[N];
};

template <int N, class T>
__device__ Elements<N> read(const Pointers<T>& p, std::int64_t row_begin, std::int64_t col, float mean,
                            float rstd) {
  Elements<N> e;
  load<N>(p.dy + row_begin + col, e.dy);
  load<N>(p.x + row_begin + col, e.xhat);
  load<N>(p.gamma + col, e.g);
#pragma unroll
  for (int i = 0; i < N; ++i) {
    e.xhat[i] = (e.xhat[i] - mean) * rstd;
    e.g[i] = e.dy[i] * (e.g[i] + p.gamma_center);
  }
  return e;
}

template <class T, int N>
__device__ void store_dx(const Pointers<T>& p, std::int64_t at, const Elements<N>& e, float mean_g,
                         float mean_g_xhat, float rstd) {
  float dx[N];
#pragma unroll
  for (int i = 0; i < N; ++i) dx[i] = (e.g[i] - mean_g - e.xhat[i] * mean_g_xhat) * rstd;
  if (p.dx_add != nullptr) {
    float other[N];
    load<N>(p.dx_add + at, other);
#pragma unroll
    for (int i = 0; i < N; ++i) dx[i] += other[i];
  }
  store<N>(p.dx + at, dx);
}

// Adds the warps' sums in order and writes the sum of the chunk.
template <int N>
__device__ void store_partials(float (&shared)[kWarps][kWarp * N], const float (&sum)[N], float* out,
                               std::int64_t cols, std::int64_t first_col) {
  const int warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp;
  __syncthreads();  // the previous use of `shared` is over
#pragma unroll
  for (int i = 0; i < N; ++i) shared[warp][lane * N + i] = sum[i];
  __syncthreads();
  for (int c = threadIdx.x; c < kWarp * N; c += kWarps * kWarp) {
    if (first_col + c >= cols) continue;
    float total = 0.0f;
    for (int w = 0; w < kWarps; ++w) total += shared[w][c];
    out[first_col + c] = total;
  }
}

// A lane owns columns (p * kWarp + lane) * N for p < P. `kSums` is 1 for RMS norm, or 2.
template <class T, int N, int P, int kSums>
__global__ void __launch_bounds__(kWarps* kWarp, blocks_for(N* P* kSums))
    layer_norm_bwd_kernel(Pointers<T> p, std::int64_t rows, std::int64_t cols) {
  __shared__ float shared[kWarps][kWarp * N];
  const int warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp;
  const float inverse_cols = 1.0f / static_cast<float>(cols);
  const std::int64_t first_row = std::int64_t{blockIdx.x} * kFusedRows;
  const std::int64_t last_row = first_row + kFusedRows < rows ? first_row + kFusedRows : rows;
  float dgamma[P][N] = {}, dbeta[P][N] = {};
  for (std::int64_t row = first_row + warp; row < last_row; row += kWarps) {
    const float mean = kSums == 2 ? p.mean_of(row) : 0.0f, rstd = p.rstd[row];
    float sum_g = 0.0f, sum_g_xhat = 0.0f;
#pragma unroll
    for (int k = 0; k < P; ++k) {
      const std::int64_t c = (k * kWarp + lane) * N;
      if (c >= cols) continue;
      const Elements<N> e = read<N>(p, row * cols, c, mean, rstd);
#pragma unroll
      for (int i = 0; i < N; ++i) {
        sum_g += e.g[i];
        sum_g_xhat += e.g[i] * e.xhat[i];
        dgamma[k][i] += e.dy[i] * e.xhat[i];
        if constexpr (kSums == 2) dbeta[k][i] += e.dy[i];
      }
    }
    sum_g = kSums == 2 && p.centered() ? warp_sum(sum_g) * inverse_cols : 0.0f;
    sum_g_xhat = warp_sum(sum_g_xhat) * inverse_cols;
#pragma unroll
    for (int k = 0; k < P; ++k) {
      const std::int64_t c = (k * kWarp + lane) * N;
      if (c >= cols) continue;
      const Elements<N> e = read<N>(p, row * cols, c, mean, rstd);
      store_dx<T, N>(p, row * cols + c, e, sum_g, sum_g_xhat, rstd);
    }
  }
  float* out = p.partials + std::int64_t{blockIdx.x} * p.num_sums() * cols;
#pragma unroll
  for (int k = 0; k < P; ++k) {
    store_partials<N>(shared, dgamma[k], out, cols, k * kWarp * N);
    if (kSums == 2 && p.centered()) store_partials<N>(shared, dbeta[k], out + cols, cols, k * kWarp * N);
  }
}

// One thread per column of a chunk of kChunkRows rows.
template <class T>
__global__ void layer_norm_bwd_columns_kernel(Pointers<T> p, std::int64_t rows, std::int64_t cols) {
  const std::int64_t col = std::int64_t{blockIdx.y} * kThreads + threadIdx.x;
  if (col >= cols) return;
  const std::int64_t first = std::int64_t{blockIdx.x} * kChunkRows;
  const std::int64_t last = first + kChunkRows < rows ? first + kChunkRows : rows;
  float dgamma = 0.0f, dbeta = 0.0f;
#pragma unroll 4
  for (std::int64_t row = first; row < last; ++row) {
    const float dy = to_float(p.dy[row * cols + col]);
    dgamma += dy * (to_float(p.x[row * cols + col]) - p.mean_of(row)) * p.rstd[row];
    dbeta += dy;
  }
  float* out = p.partials + std::int64_t{blockIdx.x} * p.num_sums() * cols;
  out[col] = dgamma;
  if (p.centered()) out[cols + col] = dbeta;
}

// One warp per row.
template <class T, int N>
__global__ void __launch_bounds__(kWarps* kWarp)
    layer_norm_bwd_dx_kernel(Pointers<T> p, std::int64_t rows, std::int64_t cols) {
  const std::int64_t row = std::int64_t{blockIdx.x} * kWarps + threadIdx.x / kWarp;
  if (row >= rows) return;  // a whole warp
  const float inverse_cols = 1.0f / static_cast<float>(cols);
  const float mean = p.mean_of(row), rstd = p.rstd[row];
  const std::int64_t first = threadIdx.x % kWarp * N;
  float sum_g = 0.0f, sum_g_xhat = 0.0f;
  for (std::int64_t c = first; c < cols; c += kWarp * N) {
    const Elements<N> e = read<N>(p, row * cols, c, mean, rstd);
#pragma unroll
    for (int i = 0; i < N; ++i) {
      sum_g += e.g[i];
      sum_g_xhat += e.g[i] * e.xhat[i];
    }
  }
  sum_g = p.centered() ? warp_sum(sum_g) * inverse_cols : 0.0f;
  sum_g_xhat = warp_sum(sum_g_xhat) * inverse_cols;
  for (std::int64_t c = first; c < cols; c += kWarp * N) {
    const Elements<N> e = read<N>(p, row * cols, c, mean, rstd);
    store_dx<T, N>(p, row * cols + c, e, sum_g, sum_g_xhat, rstd);
  }
}

template <class T, int N, int P>
void run_fused(const KernelContext& exec, const Pointers<T>& p, std::int64_t rows, std::int64_t cols) {
  const dim3 grid = grid_of(ceil_div(rows, kFusedRows));
  auto* kernel = layer_norm_bwd_kernel<T, N, P, 2>;
  if constexpr (N > 1) {
    if (!p.centered()) kernel = layer_norm_bwd_kernel<T, N, P, 1>;
  }
  launch(exec, "layer_norm_bwd", grid, kWarps * kWarp, 0, kernel, p, rows, cols);
}

// Keeps registers low for few columns: P is chosen from six sizes to fit the row.
template <class T>
void run_fused(const KernelContext& exec, const Pointers<T>& p, std::int64_t rows, std::int64_t cols,
               bool packed) {
  constexpr int N = kPack<T>, kStep = kMaxFusedCols / kWarp / N / 8;
  const std::int64_t packs = ceil_div(cols, kWarp * N);
  if (!packed && cols <= kMaxFusedCols / 2)
    return run_fused<T, 1, kMaxFusedCols / kWarp / 2>(exec, p, rows, cols);
  if (!packed) return run_fused<T, 1, kMaxFusedCols / kWarp>(exec, p, rows, cols);
  if (packs <= kStep) return run_fused<T, N, kStep>(exec, p, rows, cols);
  if (packs <= 2 * kStep) return run_fused<T, N, 2 * kStep>(exec, p, rows, cols);
  if (packs <= 3 * kStep) return run_fused<T, N, 3 * kStep>(exec, p, rows, cols);
  if (packs <= 4 * kStep) return run_fused<T, N, 4 * kStep>(exec, p, rows, cols);
  if (packs <= 6 * kStep) return run_fused<T, N, 6 * kStep>(exec, p, rows, cols);
  run_fused<T, N, 8 * kStep>(exec, p, rows, cols);
}

template <class T>
void run_apart(const KernelContext& exec, const Pointers<T>& p, std::int64_t rows, std::int64_t cols,
               bool packed) {
  dim3 grid = grid_of(ceil_div(rows, kChunkRows));
  grid.y = static_cast<unsigned>(ceil_div(cols, kThreads));
  launch(exec, "layer_norm_bwd", grid, kThreads, 0, layer_norm_bwd_columns_kernel<T>, p, rows, cols);
  with_pack<T>(packed, [&]<int N>(std::integral_constant<int, N>) {
    launch(exec, "layer_norm_bwd", grid_of(ceil_div(rows, kWarps)), kWarps * kWarp, 0,
           layer_norm_bwd_dx_kernel<T, N>, p, rows, cols);
  });
}

}  // namespace

void run_op(const KernelContext& exec, const LayerNormBwdArgs& args) {
  const std::int64_t cols = args.gamma.num_elems(), rows = args.rstd.num_elems();
  assert(args.x.num_elems() == rows * cols && args.dx.num_elems() == rows * cols);
  check_dtype("layer_norm_bwd", args.x.dtype, {args.dy, args.gamma, args.dx_add, args.dx});
  check_dtype("layer_norm_bwd", DType::kFloat32, {args.mean, args.rstd, args.dgamma, args.dbeta});
  const bool fused = cols <= kMaxFusedCols;
  const std::int64_t chunks = ceil_div(rows, fused ? kFusedRows : kChunkRows);
  const std::int64_t pitch = (args.mean.defined() ? 2 : 1) * cols;
  const Workspace partials(
      exec, static_cast<std::size_t>(std::max<std::int64_t>(1, chunks * pitch)) * sizeof(float));
  if (rows > 0) {
    for_float_type("layer_norm_bwd", args.x.dtype, [&]<class T>(T) {
      const Pointers<T> p{.dy = args.dy.as<T>(),
                          .x = args.x.as<T>(),
                          .gamma = args.gamma.as<T>(),
                          .gamma_center = args.gamma_center,
                          .mean = args.mean.as<float>(),
                          .rstd = args.rstd.as<float>(),
                          .dx_add = args.dx_add.as<T>(),
                          .dx = args.dx.as<T>(),
                          .partials = partials.as<float>()};
      const bool packed = rows_are_packable(cols, sizeof(T), {p.dy, p.x, p.gamma, p.dx_add, p.dx});
      if (fused) {
        run_fused<T>(exec, p, rows, cols, packed);
      } else {
        run_apart<T>(exec, p, rows, cols, packed);
      }
    });
  }
  const GradientMode dbeta_mode = args.mean.defined() ? args.dbeta_mode : GradientMode::kIgnore;
  sum_chunks(exec, "layer_norm_bwd",
             {{partials.as<float>(), args.dgamma.as<float>(), args.dgamma_mode},
              {partials.as<float>() + cols, args.dbeta.as<float>(), dbeta_mode}},
             chunks, pitch, cols);
}

}  // namespace trireme::cuda
