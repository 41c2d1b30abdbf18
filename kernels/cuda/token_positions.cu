// Adds a first token and positions to the tokens of images.
#include <cassert>

#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/ops.h"
#include "kernels/cuda/pack.cuh"

namespace trireme::cuda {
namespace {

constexpr int kRowThreads = 128;  // per row

// One block per token of y. `before` is 1 with a first token, else 0.
template <class T, int N>
__global__ void token_positions_fwd_kernel(const T* x, const T* first, const T* positions, T* y,
                                           std::int64_t tokens, std::int64_t before, std::int64_t cols) {
  const std::int64_t row = blockIdx.x, sample = row / tokens, t = row % tokens;
  const T* token = t < before ? first : x + (sample * (tokens - before) + t - before) * cols;
  for (std::int64_t c = std::int64_t{threadIdx.x} * N; c < cols; c += std::int64_t{kRowThreads} * N) {
    float v[N], p[N];
    load<N>(token + c, v);
    load<N>(positions + t * cols + c, p);
#pragma unroll
    for (int i = 0; i < N; ++i) v[i] += p[i];
    store<N>(y + row * cols + c, v);
  }
}

// One block per token of dx.
template <class T, int N>
__global__ void without_first_kernel(const T* dy, T* dx, std::int64_t tokens, std::int64_t cols) {
  const std::int64_t row = blockIdx.x;
  const T* from = dy + (row / (tokens - 1) * tokens + row % (tokens - 1) + 1) * cols;
  for (std::int64_t c = std::int64_t{threadIdx.x} * N; c < cols; c += std::int64_t{kRowThreads} * N) {
    float v[N];
    load<N>(from + c, v);
    store<N>(dx + row * cols + c, v);
  }
}

// One block per token, which sums over samples in order.
template <class T, int N>
__global__ void sum_over_samples_kernel(const T* dy, float* sum, std::int64_t samples, std::int64_t tokens,
                                        std::int64_t cols, bool accumulate) {
  const std::int64_t t = blockIdx.x;
  for (std::int64_t c = std::int64_t{threadIdx.x} * N; c < cols; c += std::int64_t{kRowThreads} * N) {
    float total[N] = {};
    if (accumulate) load<N>(sum + t * cols + c, total);
#pragma unroll 4
    for (std::int64_t s = 0; s < samples; ++s) {
      float v[N];
      load<N>(dy + (s * tokens + t) * cols + c, v);
#pragma unroll
      for (int i = 0; i < N; ++i) total[i] += v[i];
    }
    store<N>(sum + t * cols + c, total);
  }
}

}  // namespace

void run_op(const KernelContext& exec, const TokenPositionsFwdArgs& args) {
  const std::int64_t tokens = args.y.shape[1], cols = args.y.shape[2];
  const std::int64_t before = args.first.defined() ? 1 : 0;
  assert(args.x.shape[1] + before == tokens && args.positions.num_elems() == tokens * cols);
  check_dtype("token_positions_fwd", args.y.dtype, {args.x, args.first, args.positions});
  if (args.y.num_elems() == 0) return;
  for_float_type("token_positions_fwd", args.y.dtype, [&]<class T>(T) {
    const bool packed =
        rows_are_packable(cols, sizeof(T), {args.x.data, args.first.data, args.positions.data, args.y.data});
    with_pack<T>(packed, [&]<int N>(std::integral_constant<int, N>) {
      launch(exec, "token_positions_fwd", grid_of(args.y.num_elems() / cols), kRowThreads, 0,
             token_positions_fwd_kernel<T, N>, args.x.as<T>(), args.first.as<T>(), args.positions.as<T>(),
             args.y.as<T>(), tokens, before, cols);
    });
  });
}

void run_op(const KernelContext& exec, const TokenPositionsBwdArgs& args) {
  const std::int64_t samples = args.dy.shape[0], tokens = args.dy.shape[1], cols = args.dy.shape[2];
  check_dtype("token_positions_bwd", args.dy.dtype, {args.dx});
  check_dtype("token_positions_bwd", DType::kFloat32, {args.dfirst, args.dpositions});
  if (tokens == 0 || cols == 0) return;
  for_float_type("token_positions_bwd", args.dy.dtype, [&]<class T>(T) {
    const bool packed = rows_are_packable(
        cols, sizeof(T), {args.dy.data, args.dx.data, args.dfirst.data, args.dpositions.data});
    with_pack<T>(packed, [&]<int N>(std::integral_constant<int, N>) {
      const std::int64_t rows = samples * (tokens - 1);
      if (args.dx.defined() && rows > 0) {
        launch(exec, "token_positions_bwd", grid_of(rows), kRowThreads, 0, without_first_kernel<T, N>,
               args.dy.as<T>(), args.dx.as<T>(), tokens, cols);
      }
      const auto sum = [&](float* to, std::int64_t first_tokens, GradientMode mode) {
        if (mode == GradientMode::kIgnore) return;
        launch(exec, "token_positions_bwd", grid_of(first_tokens), kRowThreads, 0,
               sum_over_samples_kernel<T, N>, args.dy.as<T>(), to, samples, tokens, cols,
               mode == GradientMode::kAccumulate);
      };
      sum(args.dfirst.as<float>(), 1, args.dfirst_mode);
      sum(args.dpositions.as<float>(), tokens, args.dpositions_mode);
    });
  });
}

}  // namespace trireme::cuda
